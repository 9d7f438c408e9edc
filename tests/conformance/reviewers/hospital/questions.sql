-- H101 answer
SELECT ward, readmitted, COUNT(*) FROM stays GROUP BY 1, 2 ORDER BY 1, 2;

-- H102 answer
SELECT diagnosis LIKE 'I%' AS circulatory, AVG(cost) FROM stays GROUP BY 1;

-- H103 answer
SELECT LEFT(diagnosis, 1) AS chapter, COUNT(*) AS n, ROUND(AVG(cost), 2) AS mean FROM stays GROUP BY 1 HAVING COUNT(*)
> 20 ORDER BY 2 DESC;

-- H104 answer
SELECT ward, AVG(discharged - admitted) AS los, STDDEV(discharged - admitted) AS sd FROM stays GROUP BY ward ORDER BY
los DESC;

-- H105 wide
SELECT SUM(cost) / SUM(discharged - admitted) AS cost_per_day FROM stays;
-- exactly
SELECT SUM(cost) * 1.0 / SUM(discharged - admitted) AS cost_per_day FROM stays;

-- H106 answer
SELECT COUNT(*) FROM stays WHERE discharged = admitted;

-- H107 answer
SELECT EXTRACT(year FROM admitted) AS y, EXTRACT(month FROM admitted) AS m, COUNT(*) FROM stays GROUP BY 1, 2 ORDER BY
1, 2;

-- H108 answer
SELECT CASE WHEN discharged - admitted = 0 THEN 'same day' WHEN discharged - admitted <= 7 THEN 'week' ELSE 'long' END
AS los, COUNT(*) FROM stays GROUP BY 1;

-- H109 answer
SELECT discharged - admitted AS days, COUNT(*) FROM stays WHERE discharged - admitted BETWEEN 0 AND 14 GROUP BY 1
ORDER BY 1;

-- H110 answer
SELECT (birth_year / 10) * 10 AS decade, COUNT(*) FROM patients GROUP BY 1 ORDER BY 1;
-- exactly
SELECT birth_year AS decade, COUNT(*) FROM patients GROUP BY 1 ORDER BY 1;

-- H111 answer
SELECT 2026 - birth_year AS age, COUNT(*) FROM patients GROUP BY 1 HAVING COUNT(*) > 5;

-- H112 answer
SELECT sex, AVG(2026 - birth_year) FROM patients GROUP BY sex;

-- H113 answer
SELECT SUM(cost) FILTER (WHERE EXTRACT(year FROM admitted) = 2025) AS y25, SUM(cost) FILTER (WHERE EXTRACT(year FROM
admitted) = 2024) AS y24, SUM(cost) FILTER (WHERE EXTRACT(year FROM admitted) = 2025) * 100.0 / SUM(cost) FILTER
(WHERE EXTRACT(year FROM admitted) = 2024) - 100 AS pct FROM stays;

-- H114 refuse
SELECT COUNT(*) FROM stays WHERE (admitted, discharged) OVERLAPS (DATE '2025-01-01', DATE '2025-02-01');

-- H115 answer
SELECT COUNT(*) FROM stays WHERE admitted <= DATE '2025-06-30' AND discharged >= DATE '2025-06-30';

-- H116 answer
SELECT to_char(admitted, 'Day') AS d, COUNT(*) FROM stays GROUP BY 1;
-- exactly
SELECT TRIM(to_char(admitted, 'Day')) AS d, COUNT(*) FROM stays GROUP BY 1;

-- H117 answer
SELECT to_char(admitted, 'YYYY-"Q"Q') AS q, COUNT(*) FROM stays GROUP BY 1 ORDER BY 1;

-- H118 answer
SELECT region, COUNT(*) FROM patients WHERE region <> ALL (ARRAY['north','south']) GROUP BY region;

-- H119 refuse
SELECT COUNT(*) FROM stays WHERE patient_id IN (SELECT patient_id FROM patients WHERE sex = 'f');

-- H120 refuse
SELECT COUNT(*) FROM stays s WHERE EXISTS (SELECT 1 FROM patients p WHERE p.patient_id = s.patient_id AND p.sex = 'f');

-- H121 refuse
SELECT * FROM stays LIMIT 5;

-- H122 answer
SELECT ward, COUNT(*) FROM stays WHERE ward IN (VALUES ('surgery'), ('oncology')) GROUP BY ward;

-- H123 answer
SELECT SUM(CASE WHEN cost > 10000 THEN cost END) * 100.0 / SUM(cost) AS pct_from_expensive FROM stays;

-- H124 refuse
SELECT MEDIAN(discharged - admitted) FROM stays;
