-- S101 answer
SELECT canton, sex, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY canton) AS pct FROM persons
GROUP BY canton, sex ORDER BY canton, sex;

-- S102 answer
SELECT SUM(weight) FILTER (WHERE status = 'unemployed') / SUM(weight) FILTER (WHERE status IN ('employed',
'unemployed')) AS rate FROM persons;

-- S103 answer
SELECT CASE WHEN age < 15 THEN '0-14' WHEN age < 65 THEN '15-64' ELSE '65+' END AS g, SUM(weight) AS pop FROM persons
GROUP BY 1 ORDER BY 1;

-- S104 answer
SELECT (COUNT(*) FILTER (WHERE age < 15) + COUNT(*) FILTER (WHERE age >= 65)) * 100.0 / COUNT(*) FILTER (WHERE age
BETWEEN 15 AND 64) AS dependency FROM persons;

-- S105 answer
SELECT education, COUNT(*) FROM persons WHERE education IS NOT NULL GROUP BY education;

-- S106 answer
SELECT canton, AVG(income) AS m FROM persons WHERE status = 'employed' GROUP BY canton HAVING AVG(income) BETWEEN
40000 AND 80000 ORDER BY m;

-- S107 answer
SELECT TRUNC(age, -1) AS d, AVG(income) FROM persons GROUP BY 1 ORDER BY 1;

-- S108 answer
SELECT age - age % 10 AS decade, COUNT(*) FROM persons GROUP BY 1;

-- S109 answer
SELECT age / 10 AS decade, COUNT(*) FROM persons GROUP BY 1;
-- exactly
SELECT age / 10.0 AS decade, COUNT(*) FROM persons GROUP BY 1;

-- S110 answer
SELECT SUM(weight * CASE WHEN income < 30000 THEN 1 ELSE 0 END) / SUM(weight) AS poverty FROM persons;

-- S111 answer
SELECT SQRT(SUM(weight * weight)) / SUM(weight) AS deff FROM persons;

-- S112 answer
SELECT POWER(SUM(weight), 2) / SUM(POWER(weight, 2)) AS n_eff FROM persons;

-- S113 answer
SELECT income / 12 > 5000 AS high, COUNT(*) FROM persons GROUP BY 1;
-- exactly
SELECT income / 12.0 > 5000 AS high, COUNT(*) FROM persons GROUP BY 1;

-- S114 refuse
SELECT COUNT(*) FROM persons WHERE income * 1.0 / NULLIF(hours, 0) > 1000;

-- S115 within
SELECT status, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY income) FILTER (WHERE sex = 'f') AS f FROM persons GROUP BY
status;

-- S116 answer
SELECT canton, COUNT(*) FROM persons GROUP BY canton ORDER BY CASE canton WHEN 'ZH' THEN 0 ELSE 1 END, canton;

-- S117 answer
SELECT AVG(hours) AS h FROM persons WHERE hours > 0 AND sex = 'f' AND canton IN ('ZH', 'BE');

-- S118 refuse
SELECT AVG(n) FROM (SELECT household_id, COUNT(*) n FROM persons GROUP BY household_id) h;

-- S119 answer
SELECT COUNT(*) FROM persons WHERE income > 2 * 365 * 8 * hours;

-- S120 answer
SELECT CASE WHEN age >= 18 THEN 'adult' END AS a, COUNT(*) FROM persons GROUP BY 1;
-- exactly
SELECT 'adult' AS a, COUNT(*) FROM persons WHERE age >= 18;

-- S121 answer
SELECT AVG(income), AVG(income) * 1.05 AS up5, AVG(income)::int / 1000 AS k FROM persons;
-- exactly
SELECT AVG(income), AVG(income) * 1.05 AS up5, AVG(income)::int / 1000.0 AS k FROM persons;
