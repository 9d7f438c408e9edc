-- E001 answer
SELECT dept, COUNT(*) FROM employees GROUP BY dept ORDER BY 2 DESC NULLS LAST;

-- E002 answer
SELECT dept, ROUND(AVG(salary)::numeric, 2) AS avg_salary FROM employees WHERE left_on IS NULL GROUP BY dept;

-- E003 answer
SELECT gender, AVG(salary) AS mean, STDDEV_SAMP(salary) AS sd, COUNT(*) AS n FROM employees GROUP BY gender HAVING
COUNT(*) >= 10 ORDER BY gender;

-- E004 answer
SELECT 100.0 * (AVG(salary) FILTER (WHERE gender = 'm') - AVG(salary) FILTER (WHERE gender = 'f')) /
NULLIF(AVG(salary) FILTER (WHERE gender = 'm'), 0) AS gap_pct FROM employees;

-- E005 answer
SELECT EXTRACT(year FROM hired) AS yr, COUNT(*) AS hires, SUM(COUNT(*)) OVER (ORDER BY EXTRACT(year FROM hired)) AS
running FROM employees GROUP BY 1 ORDER BY 1;

-- E006 answer
SELECT CASE WHEN EXTRACT(year FROM AGE(DATE '2026-01-01', birth)) < 30 THEN '<30' WHEN EXTRACT(year FROM AGE(DATE
'2026-01-01', birth)) BETWEEN 30 AND 49 THEN '30-49' ELSE '50+' END AS age_band, COUNT(*) FROM employees GROUP BY
age_band;

-- E007 answer
SELECT dept, COUNT(*) FILTER (WHERE left_on IS NOT NULL) * 100.0 / COUNT(*) AS attrition FROM employees GROUP BY dept
ORDER BY attrition DESC LIMIT 3;

-- E008 answer
SELECT AVG(left_on - hired) FROM employees WHERE left_on IS NOT NULL;

-- E009 answer
SELECT COUNT(*) FROM employees WHERE left_on - hired > 365;

-- E010 answer
SELECT COUNT(*) FROM employees WHERE left_on - hired >= 366;

-- E011 answer
SELECT dept, SUM(COALESCE(bonus, 0)) AS bonus_total, SUM(salary + COALESCE(bonus, 0)) AS comp FROM employees GROUP BY
dept;

-- E012 answer
SELECT dept, gender, COUNT(*), GROUPING(dept), GROUPING(gender) FROM employees GROUP BY ROLLUP (dept, gender);

-- E013 answer
SELECT to_char(hired, 'YYYY') AS y, COUNT(*) FROM employees WHERE hired >= DATE '2020-01-01' GROUP BY 1 ORDER BY 1;

-- E014 answer
SELECT SUM(fte) AS total_fte, SUM(salary * fte) AS paid, SUM(salary * fte) / SUM(fte) AS per_fte FROM employees;

-- E015 answer
SELECT grade, COUNT(*) FROM employees GROUP BY grade ORDER BY grade;

-- E016 refuse
SELECT PERCENTILE_CONT(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY salary) FROM employees;

-- E017 answer
SELECT MODE() WITHIN GROUP (ORDER BY dept) FROM employees;

-- E018 answer
SELECT dept, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM employees GROUP BY dept;

-- E019 refuse
SELECT dept, AVG(salary) - AVG(AVG(salary)) OVER () AS diff FROM employees GROUP BY dept;

-- E020 answer
SELECT COUNT(*) FILTER (WHERE remote) AS remote, COUNT(*) FILTER (WHERE NOT remote) AS onsite, COUNT(*) FILTER (WHERE
remote)::float / COUNT(*) AS share FROM employees;

-- E021 refuse
SELECT BOOL_OR(remote) FROM employees;

-- E022 answer
SELECT "dept" AS "Department", COUNT(*) AS "Head Count" FROM "employees" GROUP BY "dept" -- staff list

-- E023 answer
SELECT CORR(salary, grade), REGR_SLOPE(salary, grade), REGR_R2(salary, grade) FROM employees WHERE left_on IS NULL;

-- E024 answer
SELECT COUNT(manager), COUNT(*) - COUNT(manager) AS missing FROM employees;

-- E025 answer
SELECT COUNT(*) FROM employees WHERE manager IS DISTINCT FROM TRUE;

-- E026 answer
SELECT COUNT(*) FROM employees WHERE manager IS NOT TRUE;

-- E027 answer
SELECT COUNT(*) FROM employees WHERE salary BETWEEN SYMMETRIC 90000 AND 60000;

-- E028 answer
SELECT dept, VAR_POP(salary), STDDEV_POP(salary), VARIANCE(salary) FROM employees GROUP BY 1;

-- E029 answer
SELECT LEFT(dept, 1) AS initial, COUNT(*) FROM employees GROUP BY LEFT(dept, 1);

-- E030 answer
SELECT COUNT(*) FROM employees WHERE dept SIMILAR TO '(Sales|Support)';

-- E031 answer
SELECT COUNT(*) FROM employees WHERE dept ~ '^S' AND dept !~* 'port$';

-- E032 answer
SELECT COUNT(*) FROM employees WHERE dept ILIKE 's%' AND LENGTH(dept) > 5;

-- E033 answer
SELECT UPPER(dept) || '/' || gender AS cell, COUNT(*) FROM employees GROUP BY 1;

-- E034 answer
SELECT COUNT(*) FROM employees WHERE (dept, gender) IN (('Sales', 'f'), ('HR', 'm'));

-- E035 answer
SELECT SUM(CASE WHEN gender = 'f' THEN 1 ELSE 0 END)::numeric / NULLIF(COUNT(*), 0) AS share_f FROM employees WHERE
grade >= 7;

-- E036 answer
WITH d AS (SELECT dept, COUNT(*) AS n, SUM(salary) AS s FROM employees GROUP BY dept) SELECT dept, n, s / n AS mean,
ROUND(100.0 * s / SUM(s) OVER (), 1) AS pct FROM d ORDER BY pct DESC;
-- exactly
WITH d AS (SELECT dept, COUNT(*) AS n, SUM(salary) AS s FROM employees GROUP BY dept) SELECT dept, n, s * 1.0 / n AS
mean, ROUND(100.0 * s / SUM(s) OVER (), 1) AS pct FROM d ORDER BY pct DESC;

-- E037 refuse
SELECT dept, COUNT(*) FROM employees GROUP BY dept HAVING AVG(salary) > (SELECT AVG(salary) FROM employees);

-- E038 refuse
SELECT COUNT(*) FROM employees WHERE salary > (SELECT AVG(salary) FROM employees);

-- E039 refuse
SELECT emp_id, salary FROM employees ORDER BY salary DESC FETCH FIRST 10 ROWS ONLY;

-- E040 refuse
SELECT dept, STRING_AGG(emp_id, ',') FROM employees GROUP BY dept;

-- E041 refuse
SELECT ARRAY_AGG(salary) FROM employees;

-- E042 refuse
SELECT dept, COUNT(DISTINCT grade) FROM employees GROUP BY dept;

-- E043 refuse
SELECT a.dept, COUNT(*) FROM employees a JOIN employees b ON a.emp_id = b.emp_id GROUP BY 1;

-- E044 answer
SELECT FLOOR(salary / 25000) * 25000 AS bracket, COUNT(*) FROM employees GROUP BY bracket ORDER BY bracket;

-- E045 answer
SELECT dept, SUM(salary) / 12.0 AS monthly, SUM(salary) / 52 AS weekly FROM employees GROUP BY dept;
-- exactly
SELECT dept, SUM(salary) / 12.0 AS monthly, SUM(salary) / 52.0 AS weekly FROM employees GROUP BY dept;

-- E046 answer
SELECT COUNT(*) FROM employees WHERE EXTRACT(month FROM birth) = 11 AND EXTRACT(day FROM birth) = 19;

-- E047 answer
SELECT AVG(CASE WHEN remote THEN salary END) AS remote_avg, AVG(CASE WHEN NOT remote THEN salary END) AS office_avg
FROM employees;

-- E048 answer
SELECT dept, AVG(EXTRACT(year FROM AGE(DATE '2026-11-18', hired))) AS tenure FROM employees WHERE left_on IS NULL
GROUP BY dept;

-- E049 answer
SELECT COUNT(*) FROM employees WHERE hired + 90 < left_on;

-- E050 answer
SELECT AVG(COALESCE(left_on, CURRENT_DATE) - hired) / 365.25 AS years FROM employees;

-- E051 refuse
SELECT NTILE(4) OVER (ORDER BY COUNT(*)) AS q, dept, COUNT(*) FROM employees GROUP BY dept;

-- E052 within
SELECT dept, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY salary) AS p50, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY
salary) AS p90 FROM employees GROUP BY dept;

-- E053 answer
SELECT COALESCE(dept, 'TOTAL') AS dept, COUNT(*) FROM employees GROUP BY GROUPING SETS ((dept), ());

-- E054 answer
SELECT (SELECT COUNT(*) FROM employees WHERE remote) * 100.0 / (SELECT COUNT(*) FROM employees) AS pct;

-- E055 refuse
SELECT 'f' AS g, COUNT(*) FROM employees WHERE gender = 'f' UNION ALL SELECT 'm', COUNT(*) FROM employees WHERE gender
= 'm';

-- E056 answer
SELECT CAST(AVG(salary) AS DECIMAL(10,2)) AS m, CAST(COUNT(*) AS BIGINT) AS n FROM employees;

-- E057 answer
SELECT COUNT(*) FROM employees WHERE NOT (dept IN ('HR') OR gender <> 'f') AND 1 = 1;

-- E058 answer
SELECT COUNT(1), SUM(1), COUNT('x') FROM employees;

-- E059 refuse
SELECT MIN(hired), MAX(hired) FROM employees;

-- E060 refuse
SELECT dept, COUNT(*) FROM employees WHERE dept IN (SELECT dept FROM employees WHERE dept LIKE 'S%') GROUP BY dept;

-- E061 answer
SELECT remote, manager, COUNT(*) FROM employees GROUP BY CUBE (remote, manager) ORDER BY 1 NULLS FIRST, 2 NULLS LAST;
-- exactly
SELECT remote, manager, COUNT(*) FROM employees WHERE manager IS NOT NULL GROUP BY CUBE (remote, manager) ORDER BY 1
NULLS FIRST, 2 NULLS LAST;

-- E062 answer
SELECT DATE_PART('quarter', hired) AS q, DATE_PART('year', hired) AS y, COUNT(*) FROM employees WHERE hired >=
'2024-01-01' GROUP BY 2, 1 ORDER BY 2, 1;

-- E063 answer
SELECT dept, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY remote) AS w, remote FROM employees GROUP BY dept,
remote;

-- E064 answer
SELECT COUNT(*) AS n FROM employees AS e WHERE e.salary % 1000 = 0;

-- E065 answer
SELECT SUM(salary) FILTER (WHERE remote) - SUM(salary) FILTER (WHERE NOT remote) AS delta, GREATEST(SUM(salary) FILTER
(WHERE remote), 0) AS r FROM employees;

-- E101 answer
SELECT EXTRACT(year FROM hired) AS y, COUNT(*) AS n FROM employees GROUP BY 1 HAVING EXTRACT(year FROM hired) >= 2020
ORDER BY 1;

-- E102 answer
SELECT fte, COUNT(*) AS n FROM employees GROUP BY fte HAVING fte IN (0.5, 1) AND COUNT(*) > 3 ORDER BY fte;

-- E103 answer
SELECT EXTRACT(month FROM hired) AS m, COUNT(*) AS n FROM employees GROUP BY m HAVING m BETWEEN 4 AND 6;
-- exactly
SELECT EXTRACT(month FROM hired) AS m, COUNT(*) AS n FROM employees GROUP BY 1 HAVING EXTRACT(month FROM hired)
BETWEEN 4 AND 6;

-- E104 answer
WITH y AS (SELECT EXTRACT(year FROM hired) AS y, COUNT(*) AS n FROM employees GROUP BY 1)
SELECT * FROM y WHERE y <> 2020 AND n > 20 ORDER BY y DESC;

-- E105 refuse
SELECT DATE_TRUNC('year', hired) AS y, COUNT(*) AS n FROM employees GROUP BY 1 HAVING DATE_TRUNC('year', hired) > 5;
