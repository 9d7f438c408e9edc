-- Twenty questions to a statistics office. persons is asked through a bank; cantons is public.
-- NAME answer|declared|refuse|later: see examples/questions.py

-- S01 answer
SELECT canton, COUNT(*) AS n, AVG(income) AS mean FROM persons GROUP BY canton;

-- S02 answer
SELECT SUM(weight) FROM persons WHERE status = 'unemployed';

-- S03 declared
SELECT SUM(weight * income) / SUM(weight) AS weighted_mean FROM persons;

-- S04 answer
SELECT sex, MEDIAN(income) FROM persons WHERE hours >= 35 GROUP BY sex;

-- S05 answer
SELECT width_bucket(age, 0, 100, 10) AS decade, COUNT(*) FROM persons GROUP BY 1;

-- S06 answer
SELECT FLOOR(age / 5) * 5 AS age5, sex, COUNT(*) FROM persons GROUP BY 1, 2;

-- S07 answer
SELECT AVG(income) FILTER (WHERE sex = 'f') / AVG(income) FILTER (WHERE sex = 'm') AS ratio FROM persons;

-- S08 answer
SELECT CORR(age, income), REGR_SLOPE(income, age) FROM persons;

-- S09 answer
SELECT COVAR_SAMP(hours, income) FROM persons;

-- S10 answer
SELECT education, VAR_SAMP(income) FROM persons GROUP BY education;

-- S11 later
SELECT c.language, AVG(p.income) FROM persons p JOIN cantons c USING (canton) GROUP BY c.language;

-- S12 answer
SELECT canton, COUNT(*) FILTER (WHERE status = 'unemployed') * 100.0 / NULLIF(COUNT(*), 0) AS rate
FROM persons GROUP BY canton ORDER BY rate DESC LIMIT 5;

-- S13 answer
SELECT COUNT(*)
FROM persons WHERE age BETWEEN 25 AND 34 AND education IN ('tertiary', 'doctorate') AND NOT status = 'student';

-- S14 answer
SELECT COALESCE(education, 'unknown') AS e, COUNT(*) FROM persons GROUP BY 1;

-- S15 answer
SELECT ROUND(AVG(income) / 12, 0) AS monthly FROM persons;

-- S16 answer
SELECT quartile, COUNT(*) FROM (SELECT CASE WHEN income < 40000 THEN 1 WHEN income < 60000 THEN 2 WHEN income
< 90000 THEN 3 ELSE 4 END AS quartile FROM persons) t GROUP BY quartile;

-- S17 answer
SELECT SUM(CASE WHEN income < 30000 THEN 30000 - income ELSE 0 END) / 30000.0 / COUNT(*) AS poverty_gap
FROM persons;

-- S18 answer
SELECT status, sex, COUNT(*) FROM persons GROUP BY CUBE (status, sex);

-- S19 answer
SELECT COUNT(*) FROM persons WHERE ABS(hours - 42) <= 2;

-- S20 refuse
SELECT * FROM persons WHERE income > 1000000;
