-- M101 within
SELECT DATE_TRUNC('day', read_at)::date AS d, SUM(kwh) AS kwh, MAX(voltage) AS vmax FROM readings
WHERE read_at >= '2026-11-01' AND read_at < '2026-11-08' GROUP BY 1 ORDER BY 1;

-- M102 answer
SELECT firmware, AVG(voltage) AS v, STDDEV(voltage) AS sd FROM readings WHERE read_at >= NOW() - INTERVAL '1 week'
GROUP BY firmware;

-- M103 wide
SELECT EXTRACT(hour FROM read_at) AS hour, SUM(kwh) / SUM(SUM(kwh)) OVER () AS share FROM readings GROUP BY 1 ORDER BY 1;

-- M104 answer
SELECT CASE WHEN EXTRACT(hour FROM read_at) BETWEEN 7 AND 20 THEN 'day' ELSE 'night' END AS tariff, SUM(kwh)
FROM readings GROUP BY 1;

-- M105 answer
SELECT CAST(read_at AS DATE) AS day, COUNT(*) FROM readings WHERE read_at::date = DATE '2026-10-25' GROUP BY 1;

-- M106 answer
SELECT AVG(ABS(voltage - 230)) AS dev FROM readings;

-- M107 answer
SELECT 100.0 * COUNT(*) FILTER (WHERE voltage < 207 OR voltage > 253) / COUNT(*) AS pct_bad FROM readings;

-- M108 answer
SELECT firmware, 100 * AVG((voltage > 240)::int) AS pct_high FROM readings GROUP BY firmware;

-- M109 answer
SELECT DATE_TRUNC('week', read_at) AS wk, AVG(kwh), COUNT(*) FROM readings GROUP BY wk ORDER BY wk;

-- M110 answer
SELECT date_trunc('month', installed) AS m, tariff, COUNT(*) FROM meters WHERE installed >= DATE '2024-01-01'
GROUP BY 1, 2 ORDER BY 1, 2;

-- M111 answer
SELECT EXTRACT(YEAR FROM AGE(CURRENT_DATE, installed)) AS years, COUNT(*) FROM meters GROUP BY 1 ORDER BY 1;

-- M112 answer
SELECT AVG(CURRENT_DATE - installed) / 365.25 AS mean_age FROM meters;

-- M113 answer
SELECT zip, tariff, COUNT(*) AS n FROM meters GROUP BY zip, tariff ORDER BY zip, n DESC;

-- M114 answer
SELECT COUNT(*) FROM meters WHERE zip LIKE '8%' OR zip LIKE '4%';

-- M115 wide
SELECT SUM(kwh) FILTER (WHERE EXTRACT(hour FROM read_at) >= 22 OR EXTRACT(hour FROM read_at) < 6) / SUM(kwh) AS night_share
FROM readings;

-- M116 answer
SELECT SUM(CASE WHEN kwh > 2 THEN kwh * 0.25 ELSE kwh * 0.31 END) AS bill FROM readings;

-- M117 answer
SELECT time_bucket(INTERVAL '1 day', read_at) AS bucket, AVG(kwh) FROM readings GROUP BY bucket;

-- M118 answer
SELECT DATE(read_at) AS d, SUM(kwh) FROM readings WHERE read_at BETWEEN '2026-11-02' AND '2026-11-05' GROUP BY DATE(read_at);

-- M119 answer
SELECT EXTRACT(dow FROM read_at) AS dow, EXTRACT(hour FROM read_at) AS h, AVG(kwh) AS mean FROM readings GROUP BY dow, h ORDER BY dow, h;

-- M120 refuse
SELECT firmware, COUNT(*) AS n FROM readings WHERE firmware >= '2.0' GROUP BY firmware;

-- M121 answer
SELECT DATE_TRUNC('day', read_at) AS d, SUM(kwh) - LAG(SUM(kwh)) OVER (ORDER BY DATE_TRUNC('day', read_at)) AS change
FROM readings WHERE read_at >= '2026-11-01' GROUP BY 1 ORDER BY 1;

-- M122 answer
SELECT COUNT(*) FROM readings WHERE read_at >= TIMESTAMP '2026-11-10 08:00:00' AND read_at < TIMESTAMP '2026-11-10 08:00:00' + INTERVAL '6 hours';

-- M123 answer
SELECT CORR(kwh, voltage), COVAR_POP(kwh, voltage) FROM readings WHERE firmware <> '1.8';

-- M124 wide
SELECT SUM(kwh * voltage) / SUM(kwh) AS weighted_voltage FROM readings;

-- M125 answer
SELECT width_bucket(kwh, 0, 10, 5) AS bucket, COUNT(*) FROM readings GROUP BY bucket ORDER BY bucket;

-- M126 answer
SELECT ROUND(voltage) AS v, COUNT(*) FROM readings WHERE voltage BETWEEN 225 AND 235 GROUP BY 1 ORDER BY 1;
-- exactly
SELECT ROUND(CAST(voltage AS DECIMAL(9,1))) AS v, COUNT(*) FROM readings WHERE voltage BETWEEN 225 AND 235 GROUP BY 1 ORDER BY 1;

-- M127 answer
SELECT COUNT(*) AS n FROM readings WHERE DATE_PART('hour', read_at) = 12 AND voltage IS NOT NULL;

-- M128 refuse
SELECT tariff, ROUND(COUNT(*) * 100.0 / SUM(COUNT(*)) OVER (), 1) || '%' AS share FROM meters GROUP BY tariff;

-- M129 refuse
SELECT meter_id FROM readings GROUP BY meter_id HAVING MAX(voltage) > 250;

-- M130 refuse
SELECT MIN(read_at), MAX(read_at) FROM readings;

-- M131 answer
SELECT EXTRACT(EPOCH FROM read_at) > 1793664000 AS late, COUNT(*) FROM readings GROUP BY 1;

-- M132 answer
SELECT extract(quarter from installed) AS q, COUNT(*) FROM meters WHERE extract(year from installed) = 2020 GROUP BY q;
