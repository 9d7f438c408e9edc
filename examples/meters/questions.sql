-- Twenty questions to a platform for electricity meters.
-- NAME answer|declared|refuse|later: see examples/questions.py

-- M01 answer
SELECT DATE_TRUNC('hour', read_at) AS hour, SUM(kwh)
FROM readings WHERE read_at >= TIMESTAMP '2026-11-01' GROUP BY 1 ORDER BY 1;

-- M02 answer
SELECT DATE_TRUNC('day', read_at) AS day, AVG(kwh) AS mean FROM readings GROUP BY 1;

-- M03 later
SELECT m.tariff, SUM(r.kwh) FROM readings r JOIN meters m USING (meter_id) GROUP BY m.tariff;

-- M04 answer
SELECT COUNT(*) FROM readings WHERE voltage NOT BETWEEN 207 AND 253;

-- M05 later
SELECT firmware, COUNT(DISTINCT meter_id) FROM readings GROUP BY firmware;

-- M06 answer
SELECT PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY voltage)
FROM readings WHERE read_at >= NOW() - INTERVAL '7 days';

-- M07 answer
SELECT EXTRACT(hour FROM read_at) AS h, AVG(kwh) FROM readings GROUP BY h ORDER BY h;

-- M08 later
SELECT AVG(total) FROM (SELECT meter_id, SUM(kwh) AS total FROM readings GROUP BY meter_id) t;

-- M09 later
SELECT COUNT(*) FROM (SELECT meter_id, MAX(kwh) AS peak FROM readings GROUP BY meter_id) t WHERE peak > 10;

-- M10 answer
SELECT SUM(GREATEST(kwh - 5, 0)) FROM readings;

-- M11 answer
SELECT SUM(kwh * 0.31) AS cost FROM readings;

-- M12 answer
SELECT AVG(kwh), STDDEV_POP(kwh), COUNT(*) FROM readings WHERE firmware = '2.1';

-- M13 declared
SELECT zip, COUNT(*) FROM meters GROUP BY zip;

-- M14 answer
SELECT DATE_TRUNC('month', installed) AS m, COUNT(*) FROM meters GROUP BY 1;

-- M15 answer
SELECT COUNT(*) FROM meters WHERE CURRENT_DATE - installed > 3650;

-- M16 answer
SELECT tariff, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM meters GROUP BY tariff;

-- M17 answer
SELECT DATE_TRUNC('week', read_at) AS w, SUM(kwh) - 1000 AS above FROM readings GROUP BY 1;

-- M18 answer
SELECT MIN(voltage), MAX(voltage), AVG(voltage) FROM readings GROUP BY firmware;

-- M19 refuse
SELECT meter_id, read_at, kwh FROM readings ORDER BY kwh DESC LIMIT 10;

-- M20 refuse
SELECT kwh, COUNT(*) FROM readings GROUP BY kwh;
