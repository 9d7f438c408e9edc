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

-- M201 answer
SELECT read_at::date AS d, EXTRACT(hour FROM read_at) AS h, SUM(kwh) FROM readings WHERE read_at >= '2026-11-09'
AND read_at < '2026-11-11' GROUP BY 1, 2 ORDER BY 1, 2;

-- M202 answer
SELECT DATE_TRUNC('day', read_at) AS d, SUM(kwh) AS s, SUM(SUM(kwh)) OVER (ORDER BY DATE_TRUNC('day',
read_at)) AS cum FROM readings WHERE read_at >= '2026-11-01' AND read_at < '2026-11-10' GROUP BY 1 ORDER
BY 1;

-- M203 wide
SELECT AVG(kwh) FILTER (WHERE EXTRACT(isodow FROM read_at) > 5) / AVG(kwh) FILTER (WHERE EXTRACT(isodow
FROM read_at) <= 5) AS weekend_ratio FROM readings;

-- M204 answer
SELECT COUNT(*) FROM readings WHERE read_at::time >= '22:00';

-- M205 answer
SELECT COUNT(*) FROM readings WHERE EXTRACT(hour FROM read_at) NOT BETWEEN 6 AND 21;

-- M206 within
SELECT firmware, PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY voltage) - PERCENTILE_CONT(0.05) WITHIN
GROUP (ORDER BY voltage) AS band FROM readings GROUP BY firmware;

-- M207 answer
SELECT COUNT(*) FILTER (WHERE kwh = 0) AS zeros, COUNT(*) AS n FROM readings;

-- M208 answer
SELECT FLOOR(voltage / 10) * 10 AS v, COUNT(*) FROM readings GROUP BY 1 ORDER BY 1;

-- M209 answer
SELECT time_bucket('1 hour', read_at) AS b, AVG(kwh) FROM readings WHERE read_at >= '2026-11-10' AND read_at
< '2026-11-11' GROUP BY b ORDER BY b;

-- M210 answer
SELECT date_bin('15 minutes', read_at, TIMESTAMP '2000-01-01') AS b, COUNT(*) FROM readings WHERE read_at
>= '2026-11-10' AND read_at < '2026-11-11' GROUP BY b;
-- exactly
SELECT time_bucket(INTERVAL '15 minutes', read_at) AS b, COUNT(*) FROM readings
WHERE read_at >= '2026-11-10' AND read_at < '2026-11-11' GROUP BY b;

-- M211 answer
SELECT to_char(read_at, 'YYYY-MM-DD HH24') AS h, SUM(kwh) FROM readings WHERE read_at >= '2026-11-10'
AND read_at < '2026-11-11' GROUP BY 1 ORDER BY 1;
-- exactly
SELECT STRFTIME(read_at, '%Y-%m-%d %H') AS h, SUM(kwh) FROM readings
WHERE read_at >= '2026-11-10' AND read_at < '2026-11-11' GROUP BY 1 ORDER BY 1;

-- M212 answer
SELECT to_char(read_at, 'HH24') AS h, SUM(kwh) FROM readings GROUP BY 1 ORDER BY 1;
-- exactly
SELECT STRFTIME(read_at, '%H') AS h, SUM(kwh) FROM readings GROUP BY 1 ORDER BY 1;

-- M213 wide
SELECT STDDEV(kwh) / AVG(kwh) FROM readings WHERE read_at > NOW() - INTERVAL '30' DAY;

-- M214 refuse
SELECT COUNT(*) FROM readings WHERE read_at AT TIME ZONE 'Europe/Zurich' > '2026-11-01';

-- M215 answer
SELECT EXTRACT(MINUTE FROM read_at) AS m, COUNT(*) FROM readings GROUP BY m;

-- M216 answer
SELECT DATE_DIFF('day', installed, CURRENT_DATE) / 365 AS years, COUNT(*) FROM meters GROUP BY 1;

-- M217 answer
SELECT FLOOR(DATE_DIFF('day', installed, CURRENT_DATE) / 365.25) AS years, COUNT(*) FROM meters GROUP
BY 1;

-- M218 answer
SELECT EXTRACT(YEAR FROM installed) AS y, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY EXTRACT(YEAR FROM
installed)) AS base FROM meters GROUP BY 1 ORDER BY 1;

-- M219 answer
SELECT COUNT(*) FROM meters WHERE installed < NOW() - INTERVAL '10 years';

-- M220 answer
SELECT AVG(EXTRACT(EPOCH FROM (NOW() - read_at)) / 3600) AS hours_ago FROM readings;

-- M221 answer
SELECT tariff, AVG(EXTRACT(YEAR FROM AGE(CURRENT_DATE, installed))) FROM meters GROUP BY tariff;

-- M222 answer
SELECT zip, COUNT(*) FROM meters WHERE zip::int BETWEEN 4000 AND 6999 GROUP BY zip;

-- M223 answer
SELECT LEFT(zip, 1) || 'xxx' AS area, tariff, COUNT(*) FROM meters GROUP BY 1, 2 ORDER BY 1, 2;

-- M224 answer
SELECT SUM(kwh) AS kwh, ROUND(SUM(kwh) * 0.31, 2) AS chf FROM readings WHERE DATE_TRUNC('month', read_at)
= '2026-11-01';

-- M225 answer
SELECT DATE_TRUNC('month', read_at) = DATE '2026-11-01' AS nov, SUM(kwh) FROM readings GROUP BY 1;

-- M226 answer
SELECT COUNT(*) FROM readings WHERE read_at BETWEEN CURRENT_DATE - INTERVAL '7 day' AND CURRENT_DATE;

-- M227 answer
SELECT HOUR(read_at), AVG(kwh) FROM readings GROUP BY HOUR(read_at) ORDER BY AVG(kwh) DESC LIMIT 3;

-- M228 answer
SELECT COUNT(*) FROM readings WHERE voltage NOT BETWEEN 230 * 0.9 AND 230 * 1.1;

-- M229 answer
SELECT AVG(voltage * kwh) FROM readings;

-- M230 answer
SELECT AVG(CASE WHEN voltage > 240 THEN 1.0 ELSE 0 END) AS p, firmware FROM readings GROUP BY firmware
ORDER BY p;
