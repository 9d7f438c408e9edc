-- Twenty questions to a hospital. patients and stays are asked through a bank; regions is public.
-- NAME answer|declared|refuse|later: see examples/questions.py

-- H01 answer
SELECT COUNT(*) FROM stays;

-- H02 later
SELECT COUNT(DISTINCT patient_id) FROM stays WHERE ward = 'oncology';

-- H03 answer
SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward ORDER BY n DESC;

-- H04 answer
SELECT ward, AVG(cost) AS mean_cost, STDDEV(cost) AS sd FROM stays GROUP BY ward;

-- H05 answer
SELECT AVG(discharged - admitted) AS days FROM stays WHERE ward = 'surgery';

-- H06 answer
SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS n FROM stays GROUP BY 1 ORDER BY 1;

-- H07 answer
SELECT EXTRACT(dow FROM admitted) AS weekday, COUNT(*) FROM stays GROUP BY 1;

-- H08 answer
SELECT 100.0 * SUM(CASE WHEN readmitted THEN 1 ELSE 0 END) / COUNT(*) AS pct FROM stays;

-- H09 answer
SELECT ward, 100.0 * AVG(readmitted::int) AS pct FROM stays GROUP BY ward HAVING COUNT(*) > 50;

-- H10 answer
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) FROM stays WHERE ward = 'cardiology';

-- H11 answer
SELECT CASE WHEN 2026 - birth_year < 18 THEN 'child' WHEN 2026 - birth_year < 65 THEN 'adult' ELSE 'senior'
END AS age_group, COUNT(*)
FROM patients GROUP BY 1;

-- H12 later
SELECT p.sex, s.ward, COUNT(*) FROM stays s JOIN patients p ON p.patient_id = s.patient_id GROUP BY 1, 2;

-- H13 later
SELECT r.name, COUNT(*) * 1000.0 / r.population AS per_thousand
FROM patients p JOIN regions r ON r.region = p.region GROUP BY r.name, r.population;

-- H14 later
SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM stays GROUP BY patient_id) t;

-- H15 later
SELECT COUNT(*) FROM (SELECT patient_id FROM stays GROUP BY patient_id HAVING COUNT(*) >= 3) t;

-- H16 answer
SELECT COUNT(*) FROM stays WHERE diagnosis LIKE 'I2%' AND admitted >= DATE '2026-01-01';

-- H17 declared
SELECT diagnosis, COUNT(*) AS n FROM stays GROUP BY diagnosis ORDER BY n DESC LIMIT 20;

-- H18 answer
WITH y AS (SELECT * FROM stays WHERE admitted BETWEEN DATE '2025-01-01' AND DATE '2025-12-31') SELECT ward,
SUM(cost) FROM y GROUP BY ward;

-- H19 answer
SELECT MAX(cost), MIN(cost) FROM stays;

-- H20 refuse
SELECT patient_id, SUM(cost) FROM stays GROUP BY patient_id;
