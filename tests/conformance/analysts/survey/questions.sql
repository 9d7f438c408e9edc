-- S101 answer
SELECT canton, sex, AVG(income) AS mean, STDDEV(income) AS sd, COUNT(*) AS n FROM persons GROUP BY canton, sex
ORDER BY canton, sex;


-- S102 answer
SELECT SUM(weight * CASE WHEN status = 'unemployed' THEN 1 ELSE 0 END) / SUM(weight) AS unemployment_rate FROM persons;


-- S103 answer
SELECT canton, SUM(weight * income) / NULLIF(SUM(weight), 0) AS wmean FROM persons WHERE age >= 18 GROUP BY canton
ORDER BY wmean DESC;


-- S104 answer
SELECT CASE WHEN age < 15 THEN '0-14' WHEN age BETWEEN 15 AND 24 THEN '15-24' WHEN age BETWEEN 25 AND 64 THEN '25-64'
ELSE '65+' END AS age_group, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 2) AS pct
FROM persons GROUP BY age_group ORDER BY age_group;


-- S105 within
SELECT education, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY income) AS q1, MEDIAN(income) AS q2,
PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY income) AS q3 FROM persons GROUP BY education;
-- exactly
SELECT education, QUANTILE_CONT(income, 0.25), MEDIAN(income), QUANTILE_CONT(income, 0.75) FROM persons
WHERE education IS NOT NULL GROUP BY education;


-- S106 answer
SELECT COUNT(education) AS known, COUNT(*) - COUNT(education) AS missing FROM persons;


-- S107 answer
SELECT COUNT(*) FROM persons WHERE education IS NULL AND status <> 'student';


-- S108 answer
SELECT AVG(hours) AS h FROM persons WHERE status = 'employed' AND hours > 0;


-- S109 answer
SELECT sex, AVG(NULLIF(hours, 0)) FROM persons GROUP BY sex;


-- S110 refuse
SELECT income / 10000 AS band, COUNT(*) FROM persons GROUP BY 1 ORDER BY 1;
-- exactly
SELECT income // 10000 AS band, COUNT(*) FROM persons GROUP BY 1 ORDER BY 1;


-- S111 answer
SELECT (income // 10000) * 10000 AS band, COUNT(*) FROM persons GROUP BY 1 ORDER BY 1;


-- S112 answer
SELECT TRUNC(age, -1) AS decade, AVG(income) FROM persons GROUP BY TRUNC(age, -1);
-- exactly
SELECT age // 10 * 10 AS decade, AVG(income) FROM persons GROUP BY 1;


-- S113 answer
SELECT age - age % 10 AS decade, COUNT(*) FROM persons GROUP BY 1 ORDER BY decade;


-- S114 answer
SELECT REGR_SLOPE(income, hours) AS slope, REGR_R2(income, hours) AS r2, REGR_COUNT(income, hours) AS n FROM persons
WHERE status = 'employed';


-- S115 answer
SELECT canton, CORR(age, income) AS r FROM persons GROUP BY canton ORDER BY r DESC;


-- S116 answer
SELECT sex, COUNT(*) FROM persons WHERE canton IN ('ZH', 'BE') AND age >= 18 AND age < 65 GROUP BY sex WITH ROLLUP;
-- exactly
SELECT sex, COUNT(*) FROM persons WHERE canton IN ('ZH', 'BE') AND age >= 18 AND age < 65 GROUP BY ROLLUP (sex);


-- S117 answer
SELECT canton, 100.0 * SUM(CASE WHEN income < 30000 THEN 1 ELSE 0 END) / COUNT(*) AS poor FROM persons GROUP BY canton
HAVING COUNT(*) >= 100 ORDER BY poor DESC;


-- S118 refuse
SELECT MAX(mean) - MIN(mean) FROM (SELECT canton, AVG(income) AS mean FROM persons GROUP BY canton) t;


-- S119 answer
SELECT canton, mean FROM (SELECT canton, AVG(income) AS mean FROM persons GROUP BY canton) t WHERE mean > 50000;


-- S120 answer
SELECT AVG(LEAST(income, 150000)) AS capped FROM persons;


-- S121 answer
SELECT AVG(income) AS mean, AVG(income) FILTER (WHERE age < 30) AS young, AVG(income) FILTER (WHERE age >= 60) AS old FROM persons;


-- S122 answer
SELECT SUM(income * weight) AS total FROM persons WHERE canton = 'TI' AND sex = 'f';


-- S123 answer
SELECT SQRT(VAR_SAMP(income) / COUNT(*)) AS se FROM persons;


-- S124 answer
SELECT status, sex, COUNT(*) AS n FROM persons GROUP BY GROUPING SETS ((status, sex), (status), ());


-- S125 answer
SELECT COALESCE(status, 'all') AS status, COUNT(*) FROM persons GROUP BY ROLLUP (status);


-- S126 answer
SELECT sex, 100.0 * COUNT(*) / 3000 AS pct FROM persons GROUP BY sex;


-- S127 refuse
SELECT household_id % 2, COUNT(*) FROM persons GROUP BY 1;


-- S128 answer
SELECT AVG(age), VAR_POP(age), STDDEV_POP(age) FROM persons WHERE sex = 'f';


-- S129 answer
SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM persons) AS share FROM persons WHERE canton = 'ZH';


-- S130 answer
SELECT COUNT(*) FROM persons WHERE (age, sex) = (30, 'f');


-- S131 within
SELECT APPROX_QUANTILE(income, 0.5) FROM persons;


-- S132 answer
SELECT sex, AVG(income)::int AS mean, CAST(AVG(income) AS DECIMAL(12, 2)) AS exact FROM persons GROUP BY sex;


-- S133 refuse
SELECT AVG(income / NULLIF(hours, 0)) FROM persons;


-- S134 answer
SELECT SUM(income) / SUM(hours) / 52 AS hourly FROM persons WHERE hours > 0;


-- S135 refuse
SELECT LN(AVG(income)) AS log_mean, AVG(LN(income + 1)) AS mean_log FROM persons;


-- S136 answer
SELECT age, COUNT(*) FROM persons WHERE age BETWEEN 30 AND 39 GROUP BY age ORDER BY age;
-- exactly
SELECT '[30, 40)' AS age, COUNT(*) FROM persons WHERE age BETWEEN 30 AND 39;


-- S137 answer
SELECT sex, status, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) AS pct FROM persons
GROUP BY sex, status ORDER BY sex, pct DESC;


-- S138 answer
SELECT CASE WHEN income >= (120000) THEN 'top' WHEN income >= 60000 THEN 'middle' ELSE 'low' END AS class, sex, AVG(hours)
FROM persons WHERE status = 'employed' GROUP BY class, sex;


-- S139 answer
SELECT COUNT(*) FROM persons WHERE income > 5e4 AND income <= 1E5;


-- S140 answer
SELECT canton, COUNT(*) FROM persons WHERE canton != 'ZH' AND NOT (sex = 'm') GROUP BY canton;


-- S141 answer
SELECT SUM(CASE WHEN sex = 'f' THEN income ELSE -income END) FROM persons;


-- S142 answer
SELECT AVG(CASE WHEN age >= 18 THEN income END) AS adult_income FROM persons;


-- S143 answer
SELECT COUNT(*) FROM persons WHERE hours BETWEEN 1 AND 39 OR (hours = 0 AND status = 'unemployed');


-- S144 answer
SELECT canton, COUNT(*) AS n FROM persons GROUP BY canton ORDER BY COUNT(*) DESC, canton ASC LIMIT 3;


-- S145 answer
SELECT sex, AVG(income) AS avg FROM persons GROUP BY sex HAVING AVG(income) > 1000 AND sex = 'f';


-- S146 answer
SELECT AVG((income - 50000) * (income - 50000)) FROM persons;
-- exactly
SELECT AVG((income::bigint - 50000) * (income - 50000)) FROM persons;


-- S147 answer
SELECT POWER(CORR(age, income), 2) AS r2 FROM persons;


-- S148 refuse
SELECT education, AVG(income) / (SELECT AVG(income) FROM persons) AS relative FROM persons GROUP BY education;


-- S149 public
SELECT COUNT(*) FROM persons HAVING COUNT(*) > 10;


-- S150 refuse
SELECT sex, COUNT(*) FROM persons WHERE age >= 18 GROUP BY sex UNION ALL SELECT 'all', COUNT(*) FROM persons WHERE age >= 18;

-- S201 answer
SELECT canton, ROUND(AVG(income)) AS mean, ROUND(STDDEV(income)) AS sd, ROUND(STDDEV(income) / SQRT(COUNT(*)))
AS se FROM persons GROUP BY canton ORDER BY canton;

-- S202 refuse
SELECT canton, AVG(income) - AVG(AVG(income)) OVER () AS diff FROM persons GROUP BY canton;

-- S203 answer
SELECT canton, SUM(income) FILTER (WHERE sex='f') * 1.0 / NULLIF(COUNT(*) FILTER (WHERE sex='f'), 0) AS
f, SUM(income) FILTER (WHERE sex='m') * 1.0 / NULLIF(COUNT(*) FILTER (WHERE sex='m'), 0) AS m FROM persons
GROUP BY canton;

-- S204 answer
SELECT age >= 65 AS pensioner, AVG(income) FROM persons GROUP BY pensioner;

-- S205 answer
SELECT age // 10 AS d, sex, COUNT(*) FROM persons GROUP BY ALL ORDER BY ALL;

-- S206 answer
SELECT status, COUNT(*) AS n FROM persons WHERE age BETWEEN 15 AND 64 GROUP BY status ORDER BY n DESC;

-- S207 answer
SELECT 1.0 * SUM(CASE WHEN status = 'unemployed' THEN weight END) / SUM(CASE WHEN status IN ('employed',
'unemployed') THEN weight END) AS ilo FROM persons WHERE age BETWEEN 15 AND 74;

-- S208 answer
SELECT education, COUNT(*) FILTER (WHERE income > 100000) * 1.0 / COUNT(*) AS p FROM persons WHERE education
IS NOT NULL GROUP BY education;

-- S209 answer
SELECT SUM(income * hours) / SUM(hours) FROM persons;

-- S210 answer
SELECT LEAST(hours, 60) AS h, COUNT(*) FROM persons GROUP BY 1 ORDER BY 1;

-- S211 answer
SELECT CASE WHEN hours = 0 THEN '0' WHEN hours < 20 THEN '<20' WHEN hours < 35 THEN '20-34' ELSE '35+'
END AS h, COUNT(*) FROM persons GROUP BY 1 ORDER BY 1;

-- S212 answer
SELECT COALESCE(education, 'n/a') AS education, sex, AVG(income) FROM persons GROUP BY 1, 2 ORDER BY 1,
2;

-- S213 answer
SELECT NULLIF(education, 'primary') AS e, COUNT(*) FROM persons WHERE education IS NOT NULL GROUP BY 1;
-- exactly
SELECT education, COUNT(*) FROM persons WHERE education <> 'primary' GROUP BY 1;

-- S214 answer
SELECT sex = 'f' AS female, COUNT(*) FROM persons GROUP BY 1;

-- S215 answer
SELECT CAST(sex = 'f' AS INT) AS female, AVG(age) FROM persons GROUP BY 1;

-- S216 answer
SELECT AVG((sex = 'f')::int) FROM persons WHERE income > 100000;

-- S217 refuse
SELECT income > AVG(income) FROM persons;

-- S218 answer
SELECT COVAR_POP(age, income) / VAR_POP(age) AS slope FROM persons;

-- S219 answer
SELECT (COUNT(*) * SUM(age * income) - SUM(age) * SUM(income)) / (COUNT(*) * SUM(age * age) - SUM(age)
* SUM(age)) AS slope FROM persons;

-- S220 wide
SELECT sex, REGR_SLOPE(income, age) AS b, REGR_INTERCEPT(income, age) AS a, REGR_R2(income, age) AS r2
FROM persons WHERE status = 'employed' GROUP BY sex;

-- S221 answer
SELECT SUM(POWER(income - 57000, 2)) / COUNT(*) FROM persons;

-- S222 answer
SELECT COUNT(*) FROM persons WHERE income % 1000 = 0;

-- S223 answer
SELECT COUNT(*) FROM persons WHERE MOD(age, 5) = 0 OR age IN (18, 21);

-- S224 answer
SELECT COUNT(*) FROM persons WHERE NOT (age BETWEEN 20 AND 60) AND NOT sex IN ('m');

-- S225 answer
SELECT COUNT(*) FROM persons WHERE income BETWEEN 20000 AND 40000 AND canton NOT IN ('ZH', 'BE', 'LU');

-- S226 answer
SELECT canton, sex, COUNT(*) FROM persons GROUP BY GROUPING SETS ((canton), (sex)) ORDER BY canton, sex;

-- S227 answer
SELECT status, AVG(hours) FROM persons GROUP BY status HAVING AVG(hours) BETWEEN 1 AND 60 ORDER BY 2;

-- S228 answer
SELECT canton, n, RANK() OVER (ORDER BY n DESC) FROM (SELECT canton, COUNT(*) n FROM persons GROUP BY
canton) x ORDER BY 3;

-- S229 refuse
SELECT MAX(n) FROM (SELECT canton, COUNT(*) AS n FROM persons GROUP BY canton) x;

-- S231 answer
SELECT SIGN(income - 50000) AS s, COUNT(*) FROM persons GROUP BY 1;

-- S232 answer
SELECT SUM(1) AS n, SUM(1.0 * income) / SUM(1) FROM persons WHERE sex = 'f';

-- S233 refuse
SELECT COUNT(CASE WHEN education = 'tertiary' THEN person_id END) FROM persons;

-- S234 refuse
SELECT COUNT(person_id) FROM persons WHERE sex = 'f';

-- S235 answer
SELECT SUM(weight) AS population, SUM(weight) FILTER (WHERE age >= 65) / SUM(weight) AS share65 FROM persons;

-- S236 answer
SELECT canton, SUM(weight * (status = 'unemployed')::int) / SUM(weight) AS u FROM persons GROUP BY canton;

-- S237 answer
SELECT TRUNC(income / 20000) * 20000 AS band, COUNT(*) FROM persons GROUP BY band ORDER BY band;

-- S240 refuse
SELECT sex, QUANTILE_CONT(income, [0.1, 0.5, 0.9]) FROM persons GROUP BY sex;

-- S241 answer
SELECT CASE sex WHEN 'f' THEN 'women' ELSE 'men' END AS s, 100.0 * AVG(CASE WHEN hours > 40 THEN 1 ELSE
0 END) AS pct FROM persons WHERE status = 'employed' GROUP BY 1;

-- S242 answer
SELECT EXP(AVG(income) / 100000) FROM persons;

-- S243 answer
SELECT "canton", AVG("income") FROM "persons" WHERE "canton" = 'ZH' GROUP BY "canton";

-- S244 answer
select Canton, Avg(Income) from Persons where SEX = 'f' group by CANTON;

-- S245 answer
SELECT canton, COUNT(*), SUM(CASE WHEN sex='f' THEN 1 END)*100.0/COUNT(*) AS "% female" FROM persons GROUP
BY canton;
