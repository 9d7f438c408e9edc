-- C101 within
SELECT department, COUNT(*) AS headcount, AVG(salary) AS mean, MEDIAN(salary) AS med FROM staff WHERE left_on IS NULL
GROUP BY department ORDER BY headcount DESC;


-- C102 answer
SELECT AVG(salary) FILTER (WHERE gender = 'f') / AVG(salary) FILTER (WHERE gender = 'm') - 1 AS gap FROM staff;


-- C103 answer
SELECT grade, ROUND(100.0 * AVG(CASE WHEN gender = 'f' THEN 1 ELSE 0 END), 1) AS pct_f FROM staff GROUP BY grade ORDER BY grade;


-- C104 answer
SELECT SUM(fte) AS fte, SUM(salary * fte) AS payroll FROM staff WHERE left_on IS NULL;


-- C105 answer
SELECT SUM(salary * fte) / SUM(fte) AS weighted FROM staff;


-- C106 answer
SELECT AVG("Review Score") AS score, COUNT("Review Score") AS reviewed FROM staff;


-- C107 answer
SELECT department, AVG("Review Score") FROM staff GROUP BY department HAVING COUNT("Review Score") > 10;


-- C108 answer
SELECT CORR("Review Score", salary), REGR_SLOPE(salary, "Review Score") FROM staff;


-- C109 answer
SELECT COUNT(*) FROM staff WHERE hired <= DATE '2020-01-01' AND (left_on IS NULL OR left_on > DATE '2020-01-01');


-- C110 answer
SELECT EXTRACT(YEAR FROM hired) AS year, COUNT(*) AS hires FROM staff GROUP BY year ORDER BY year;


-- C111 answer
SELECT AVG((CURRENT_DATE - born) / 365.25) AS mean_age FROM staff;


-- C112 answer
SELECT FLOOR((CURRENT_DATE - born) / 365.25 / 10) * 10 AS age10, COUNT(*) FROM staff GROUP BY 1 ORDER BY 1;


-- C113 answer
SELECT EXTRACT(YEAR FROM AGE(born)) AS age, COUNT(*) FROM staff GROUP BY 1;
-- exactly
SELECT DATE_SUB('year', born, CURRENT_DATE) AS age, COUNT(*) FROM staff GROUP BY 1;


-- C114 answer
SELECT AVG(COALESCE(left_on, CURRENT_DATE) - hired) AS tenure_days FROM staff;


-- C115 answer
SELECT AVG(left_on - hired) FROM staff WHERE left_on IS NOT NULL;


-- C116 answer
SELECT remote, department, COUNT(*) FROM staff GROUP BY remote, department;


-- C117 answer
SELECT department, 100.0 * SUM(remote::int) / COUNT(*) AS pct_remote FROM staff GROUP BY department;


-- C118 answer
SELECT CASE WHEN salary < 50000 THEN '<50k' WHEN salary < 80000 THEN '50-80k' ELSE '>80k' END AS band, gender, COUNT(*)
FROM staff GROUP BY band, gender ORDER BY band, gender;


-- C119 answer
SELECT DATEDIFF(year, hired, CURRENT_DATE) AS years, COUNT(*) FROM staff GROUP BY 1;
-- exactly
SELECT 2026 - YEAR(hired) AS years, COUNT(*) FROM staff GROUP BY 1;


-- C120 answer
SELECT COUNT(*) FROM staff WHERE born < CURRENT_DATE - INTERVAL '50 years';


-- C121 refuse
SELECT COUNT(*) FROM staff WHERE born + INTERVAL '65 years' <= CURRENT_DATE;


-- C122 answer
SELECT COUNT(*) FROM staff WHERE hired > born + 6570;


-- C123 answer
SELECT department, STDDEV(salary) / AVG(salary) AS cv, VAR_POP(salary) FROM staff GROUP BY department;


-- C124 answer
SELECT department, 100.0 * COUNT(*) / 600 AS share, COUNT(*) - 150 AS above FROM staff GROUP BY department;


-- C125 within
SELECT gender, QUANTILE_CONT(salary, 0.1) AS p10, QUANTILE_CONT(salary, 0.9) AS p90 FROM staff GROUP BY gender;


-- C126 answer
SELECT COUNT(*) FROM staff WHERE LOWER(department) = 'sales';


-- C127 answer
SELECT COUNT(*) FROM staff WHERE department SIMILAR TO '(sales|support)';


-- C128 answer
SELECT COUNT(*) FROM staff WHERE department ~ '^s';
-- exactly
SELECT COUNT(*) FROM staff WHERE regexp_matches(department, '^s');


-- C129 answer
SELECT department || '/' || gender AS grp, COUNT(*) FROM staff GROUP BY 1;


-- C130 answer
SELECT CONCAT(department, '-', gender) AS grp, COUNT(*) FROM staff GROUP BY 1;


-- C131 answer
SELECT ROUND(salary, -4) AS s, COUNT(*) FROM staff GROUP BY s ORDER BY s;


-- C132 refuse
SELECT CAST(salary / 10000 AS INT) * 10000 AS s, COUNT(*) FROM staff GROUP BY 1;


-- C133 answer
SELECT grade >= 5 AS senior, AVG(salary) FROM staff GROUP BY grade >= 5;


-- C134 answer
SELECT DATE_TRUNC('year', hired) AS y, COUNT(*) AS n, COUNT(left_on) AS gone FROM staff GROUP BY y ORDER BY y DESC;


-- C135 answer
SELECT gender, SUM(salary) / SUM(SUM(salary)) OVER () AS share FROM staff GROUP BY gender;


-- C136 answer
SELECT COUNT(*) FROM staff WHERE (remote AND grade > 3) OR (NOT remote AND grade <= 3);


-- C137 answer
SELECT COUNT(*) FROM staff WHERE remote <> TRUE AND department NOT LIKE 's%';


-- C138 answer
SELECT AVG(remote) FROM staff;
-- exactly
SELECT AVG(remote::int) FROM staff;


-- C139 answer
SELECT AVG(remote::int) * 100 AS pct, SUM(remote::int) AS n FROM staff WHERE department = 'sales';


-- C140 refuse
SELECT MAKE_DATE(2020, 1, 1) < hired AS new, COUNT(*) FROM staff GROUP BY 1;


-- C141 answer
SELECT COUNT(*) FROM staff WHERE EXTRACT(MONTH FROM born) = EXTRACT(MONTH FROM CURRENT_DATE);


-- C142 answer
SELECT COUNT(*) FROM staff WHERE MONTH(born) = 2 AND DAY(born) = 29;


-- C143 answer
SELECT COUNT(*) FROM staff WHERE hired BETWEEN SYMMETRIC DATE '2020-12-31' AND DATE '2020-01-01';
-- exactly
SELECT COUNT(*) FROM staff WHERE hired BETWEEN DATE '2020-01-01' AND DATE '2020-12-31';


-- C144 answer
SELECT department, AVG(salary) AS a FROM staff WHERE fte = 1 GROUP BY department ORDER BY a DESC NULLS LAST FETCH FIRST ROW ONLY;


-- C145 answer
SELECT SUM(salary) FROM staff WHERE department = 'sales' AND gender IN ('f', 'x') AND hired < '2015-06-30';


-- C146 refuse
SELECT department, STRING_AGG(gender, ',') FROM staff GROUP BY department;


-- C147 refuse
SELECT department, salary, RANK() OVER (PARTITION BY department ORDER BY salary) FROM staff;


-- C148 refuse
SELECT department, AVG(salary) FROM staff GROUP BY department QUALIFY ROW_NUMBER() OVER (ORDER BY AVG(salary) DESC) <= 2;


-- C149 answer
SELECT SUM(CASE WHEN left_on BETWEEN DATE '2025-01-01' AND DATE '2025-12-31' THEN 1 ELSE 0 END) * 100.0
/ SUM(CASE WHEN hired < DATE '2025-01-01' AND (left_on IS NULL OR left_on >= DATE '2025-01-01') THEN 1 ELSE 0 END) AS turnover FROM staff;


-- C150 within
SELECT grade, AVG(salary), MIN(salary), MAX(salary) FROM staff GROUP BY grade ORDER BY grade;

-- C201 refuse
SELECT department, gender, AVG(salary) AS a, AVG(salary) / AVG(AVG(salary)) OVER (PARTITION BY department)
FROM staff GROUP BY department, gender;

-- C202 answer
SELECT CASE WHEN AGE(CURRENT_DATE, born) >= INTERVAL '50 years' THEN '50+' ELSE '<50' END AS a, COUNT(*)
FROM staff GROUP BY 1;

-- C203 answer
SELECT FLOOR(EXTRACT(YEAR FROM AGE(born)) / 10) * 10 AS decade, COUNT(*) FROM staff GROUP BY 1 ORDER BY
1;

-- C204 answer
SELECT CASE WHEN DATE_PART('year', AGE(CURRENT_DATE, born)) < 30 THEN 'u30' ELSE '30+' END AS g, AVG(salary)
FROM staff GROUP BY g;

-- C205 answer
SELECT 2026 - EXTRACT(YEAR FROM born) AS age, COUNT(*) FROM staff GROUP BY age ORDER BY age;

-- C206 answer
SELECT AVG(CURRENT_DATE - hired) / 365.25 AS tenure FROM staff WHERE left_on IS NULL;

-- C207 answer
SELECT department, COUNT(*) FILTER (WHERE left_on IS NULL) AS active, COUNT(*) FILTER (WHERE left_on IS
NOT NULL) AS gone FROM staff GROUP BY department;

-- C208 answer
SELECT DATE_TRUNC('year', left_on) AS y, COUNT(*) FROM staff WHERE left_on IS NOT NULL AND left_on < '2027-01-01'
GROUP BY 1 ORDER BY 1;

-- C209 answer
SELECT EXTRACT(MONTH FROM hired) AS m, COUNT(*) FROM staff GROUP BY m ORDER BY COUNT(*) DESC LIMIT 3;

-- C210 answer
SELECT COUNT(*) FROM staff WHERE EXTRACT(YEAR FROM hired) = EXTRACT(YEAR FROM CURRENT_DATE) - 1;

-- C211 within
SELECT department, MAX(salary) / MIN(salary) AS ratio FROM staff GROUP BY department;

-- C212 within
SELECT department, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY salary DESC) FROM staff GROUP BY department;

-- C213 answer
SELECT salary BETWEEN 50000 AND 80000 AS mid, COUNT(*) FROM staff GROUP BY 1;

-- C214 answer
SELECT SUM(salary * fte) FILTER (WHERE gender = 'f') / SUM(salary * fte) FROM staff;

-- C215 answer
SELECT grade, gender, COUNT(*) FROM staff GROUP BY grade, gender ORDER BY grade DESC, gender;

-- C216 answer
SELECT grade, AVG(salary) FROM staff WHERE grade IN (1, 2, 3) GROUP BY grade;

-- C217 answer
SELECT "Review Score" >= 60 AS good, COUNT(*), AVG(salary) FROM staff WHERE "Review Score" IS NOT NULL
GROUP BY 1;

-- C218 answer
SELECT s."Review Score" / 20 AS b, COUNT(*) FROM staff s WHERE s."Review Score" IS NOT NULL GROUP BY 1;

-- C219 answer
SELECT COALESCE("Review Score", 0) > 50 AS x, COUNT(*) FROM staff GROUP BY 1;

-- C220 answer
SELECT AVG(COALESCE("Review Score", 50)) FROM staff;

-- C221 answer
SELECT CASE WHEN fte < 1 THEN 'part' ELSE 'full' END AS t, AVG(salary / 12.0) FROM staff GROUP BY t;

-- C222 answer
SELECT fte, COUNT(*) FROM staff GROUP BY fte;

-- C223 answer
SELECT ROUND(fte, 1) AS fte, COUNT(*) FROM staff GROUP BY 1 ORDER BY 1;

-- C224 answer
SELECT AVG(salary) AS avg_salary FROM staff WHERE department = 'sales' AND remote = 1;

-- C225 answer
SELECT AVG(salary) AS avg_salary FROM staff WHERE department = 'sales' AND remote IS NOT FALSE;

-- C226 refuse
SELECT department, COUNT(*) FROM staff WHERE department IN (SELECT department FROM staff) GROUP BY department;

-- C227 answer
SELECT gender, COUNT(*) AS n, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM staff WHERE left_on
IS NULL AND grade >= 5 GROUP BY gender ORDER BY pct DESC;

-- C228 answer
SELECT department, gender, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER (PARTITION BY department) AS pct FROM
staff GROUP BY department, gender;

-- C229 answer
SELECT COUNT(*) FROM staff WHERE hired > DATE '2020-01-01' AND hired <= DATE '2020-01-01' + INTERVAL '1 year 6 months';

-- C230 refuse
SELECT TIMESTAMPDIFF(YEAR, born, CURDATE()) AS age, COUNT(*) FROM staff GROUP BY age;

-- C231 answer
SELECT DATEDIFF(YEAR, born, GETDATE()) AS age, COUNT(*) FROM staff GROUP BY DATEDIFF(YEAR, born, GETDATE());
-- exactly
SELECT 2026 - YEAR(born) AS age, COUNT(*) FROM staff GROUP BY 1;

-- C232 refuse
SELECT MONTHS_BETWEEN(CURRENT_DATE, hired) / 12 FROM staff;

-- C233 answer
SELECT CASE WHEN born < '1965-01-01' THEN 'boomer' WHEN born < '1981-01-01' THEN 'X' WHEN born < '1997-01-01'
THEN 'Y' ELSE 'Z' END AS generation, department, COUNT(*) FROM staff GROUP BY 1, 2 ORDER BY 1, 2;

-- C234 answer
SELECT department, STDDEV_POP(salary), AVG(salary), COUNT(*) FROM staff GROUP BY department;

-- C235 answer
SELECT department, COUNT(*), AVG(salary) FROM staff WHERE (gender = 'f' OR gender = 'x') AND NOT (grade
< 3) GROUP BY department ORDER BY AVG(salary) DESC;

-- C236 answer
SELECT REGR_SLOPE(salary, grade), CORR(salary, grade) FROM staff WHERE department <> 'finance';

-- C237 answer
SELECT SUM(CASE WHEN gender = 'f' AND grade >= 6 THEN 1 ELSE 0 END) * 1.0 / NULLIF(SUM(CASE WHEN grade
>= 6 THEN 1 ELSE 0 END), 0) FROM staff;

-- C238 answer
SELECT COUNT(*), department FROM staff GROUP BY department;

-- C239 answer
SELECT UPPER(LEFT(department, 1)) || SUBSTRING(department, 2) AS d, COUNT(*) FROM staff GROUP BY d;

-- C240 refuse
SELECT department, AVG(salary) OVER (PARTITION BY department) FROM staff;
