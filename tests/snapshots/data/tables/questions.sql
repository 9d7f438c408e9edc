SELECT POWER(COUNT(*), 2) / 100, SQRT(GREATEST(SUM(income), 0)), LN(COUNT(*) + 1), EXP(COUNT(*) / 1000) FROM people
SELECT ABS(SUM(income) - 100000), FLOOR(AVG(age)), CEIL(AVG(age)), ROUND(AVG(income), -2), 2 * 3 + COUNT(*) FROM people
SELECT town, smoker, COUNT(*) AS n, LAG(COUNT(*), 1) OVER (PARTITION BY town ORDER BY smoker) AS was FROM people GROUP BY 1, 2
SELECT FLOOR(age / 20) AS a, AVG(COUNT(*)) OVER (ORDER BY FLOOR(age / 20) ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM people GROUP BY 1
SELECT FLOOR(age / 20) AS a, LEAD(COUNT(*), 2) OVER (ORDER BY FLOOR(age / 20)) AS next, COUNT(*) FROM people GROUP BY 1 ORDER BY 1 DESC
SELECT town, DENSE_RANK() OVER (ORDER BY COUNT(*)), ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) FROM people GROUP BY town
SELECT COUNT(*) FROM people WHERE age * age - 60 * age + 500 >= 0
SELECT COUNT(*) FROM people WHERE age * age < 900 AND 2 * income + 300 <> 900
SELECT COUNT(*) FROM people WHERE age IN (20, 30, 40) OR age NOT BETWEEN 10 AND 80
SELECT SUM(age * age - 10 * age) FROM people WHERE age > 20
SELECT SUM(POWER(children, 2)), SUM(-age), AVG(age - 50) FROM people
SELECT SUM(CASE WHEN age < 20 THEN 1 WHEN age < 40 THEN 2 WHEN smoker THEN 3 END) FROM people
SELECT SUM(LEAST(income, 4000) - GREATEST(age, 18)) FROM people WHERE NOT smoker
SELECT SUM(SIGN(income - 2000)), SUM(TRUNC(income / 1000)), SUM(MOD(age, 7)) FROM people
SELECT ROUND(income, -3) AS thousands, COUNT(*) FROM people WHERE income BETWEEN 0 AND 6000 GROUP BY 1
SELECT CASE WHEN children IS NULL THEN 'unknown' WHEN children > 1 THEN 'several' ELSE 'few' END AS c, COUNT(*) FROM people GROUP BY 1
SELECT CONCAT(town, '-', 'x') AS t, COUNT(*) FROM people WHERE LOWER(SUBSTRING(town, 2, 3)) = 'ort' OR RIGHT(town, 1) = 'h' GROUP BY 1
SELECT TO_CHAR(seen, 'HH24:MI') AS t, COUNT(*) FROM people WHERE seen < TIMESTAMP '2026-01-01 02:00' GROUP BY 1
SELECT EXTRACT(quarter FROM joined) AS q, EXTRACT(doy FROM joined) AS d, COUNT(*) FROM people WHERE YEAR(joined) = 2021 GROUP BY 1, 2
SELECT DATE_TRUNC('week', joined) AS w, COUNT(*) FROM people WHERE joined < DATE '2020-03-01' GROUP BY 1
SELECT DATE_TRUNC('quarter', joined) AS q, AVG(income) FROM people WHERE joined >= DATE '2028-01-01' GROUP BY 1
SELECT DATE_DIFF('year', joined, DATE '2030-01-01') AS years, COUNT(*) FROM people GROUP BY 1
SELECT AVG(EXTRACT(hour FROM seen)), AVG(EXTRACT(minute FROM seen)) FROM people WHERE seen IS NOT NULL
SELECT COUNT(*) FROM people WHERE joined + 30 > DATE '2024-02-29' AND joined - INTERVAL '2 weeks' < DATE '2026-01-01'
SELECT VAR_SAMP(income), STDDEV_POP(age), COVAR_POP(age, income), REGR_R2(income, age) FROM people
SELECT QUANTILE(age, 0.25), QUANTILE(age, 0.75), MODE(smoker), MAX(age) FROM people WHERE town = 'south'
SELECT town, MEDIAN(age) AS m FROM people GROUP BY town HAVING MEDIAN(age) > 10 ORDER BY m DESC LIMIT 1
SELECT 100 * COUNT_IF(age < 18) / NULLIF(COUNT_IF(smoker), 0), COALESCE(AVG(children), 1) FROM people WHERE income < 50
SELECT COUNT(*) - COUNT(children) AS missing, COUNT(children) / COUNT(*) AS share FROM people
SELECT AVG(income) - (SELECT AVG(income) FROM people WHERE smoker) AS gap FROM people WHERE NOT smoker
