-- M101 refuse
SELECT DATE_TRUNC('day', read_at) AS d, SUM(kwh) AS total, MAX(kwh) AS peak FROM readings GROUP BY 1 ORDER BY 1;

-- M102 answer
SELECT EXTRACT(hour FROM read_at)::int / 6 AS block, SUM(kwh) FROM readings GROUP BY 1 ORDER BY 1;
-- exactly
SELECT EXTRACT(hour FROM read_at)::int / 6.0 AS block, SUM(kwh) FROM readings GROUP BY 1 ORDER BY 1;

-- M103 answer
SELECT firmware, COUNT(*) FILTER (WHERE voltage < 207 OR voltage > 253) * 1e6 / COUNT(*) AS ppm FROM readings GROUP BY
firmware ORDER BY ppm DESC;

-- M104 answer
SELECT SUM(kwh) * 0.31 AS chf, SUM(CASE WHEN EXTRACT(hour FROM read_at) BETWEEN 7 AND 19 THEN kwh * 0.35 ELSE kwh *
0.22 END) AS tou FROM readings;

-- M105 answer
SELECT SPLIT_PART(firmware, '.', 1)::int AS major, COUNT(*) FROM readings GROUP BY 1;

-- M106 answer
SELECT ROUND(voltage) AS v, COUNT(*) FROM readings WHERE voltage BETWEEN 220 AND 240 GROUP BY 1 ORDER BY 1;

-- M107 answer
SELECT date_bin('15 minutes', read_at, TIMESTAMP '2026-01-01') AS slot, SUM(kwh) FROM readings WHERE read_at >=
'2026-11-10' AND read_at < '2026-11-10 06:00' GROUP BY 1;

-- M108 answer
SELECT tariff, zip, COUNT(*) FROM meters GROUP BY GROUPING SETS ((tariff, zip), (tariff), ());

-- M109 answer
SELECT EXTRACT(year FROM installed) AS y, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY EXTRACT(year FROM installed) ROWS
UNBOUNDED PRECEDING) AS cum FROM meters GROUP BY 1;

-- M110 answer
SELECT AVG((DATE '2026-11-18' - installed) / 365.25) AS age_years FROM meters;

-- M111 answer
SELECT EXTRACT(year FROM AGE(installed)) AS age, COUNT(*) FROM meters GROUP BY 1 ORDER BY 1;

-- M112 refuse
SELECT COUNT(*) FROM readings WHERE read_at AT TIME ZONE 'UTC' >= '2026-11-01';

-- M113 refuse
SELECT AVG(kwh * 1000 / voltage) FROM readings;

-- M114 answer
SELECT COUNT(*) FROM readings WHERE read_at::time BETWEEN '22:00' AND '23:59';

-- M115 answer
SELECT SUM(kwh), date_trunc('month', read_at)::date FROM readings GROUP BY 2 HAVING SUM(kwh) > 0 ORDER BY 2;
