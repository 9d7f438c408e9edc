-- W001 answer
SELECT DATE_TRUNC('day', happened) AS d, COUNT(*) AS hits, SUM(revenue) AS rev FROM events GROUP BY d ORDER BY d;

-- W002 answer
SELECT device, SUM(converted::int)::numeric / COUNT(*) AS cr FROM events GROUP BY device ORDER BY cr DESC;

-- W003 answer
SELECT device, country, SUM(revenue), GROUPING(device, country) FROM events GROUP BY CUBE (device, country);

-- W004 answer
SELECT to_char(happened, 'YYYY-MM') AS month, SUM(revenue) AS rev, SUM(revenue) - LAG(SUM(revenue)) OVER (ORDER BY
to_char(happened, 'YYYY-MM')) AS change FROM events GROUP BY 1 ORDER BY 1;

-- W005 wide
SELECT DATE_TRUNC('week', happened) AS w, 100.0 * (SUM(revenue) - LAG(SUM(revenue)) OVER (ORDER BY DATE_TRUNC('week',
happened))) / NULLIF(LAG(SUM(revenue)) OVER (ORDER BY DATE_TRUNC('week', happened)), 0) AS pct FROM events GROUP BY 1
ORDER BY 1;

-- W006 answer
SELECT EXTRACT(hour FROM happened) AS h, EXTRACT(isodow FROM happened) AS d, COUNT(*) FROM events GROUP BY 1, 2 ORDER
BY 2, 1;

-- W007 answer
SELECT CASE WHEN EXTRACT(hour FROM happened) BETWEEN 6 AND 11 THEN 'morning' WHEN EXTRACT(hour FROM happened) BETWEEN
12 AND 17 THEN 'afternoon' WHEN EXTRACT(hour FROM happened) BETWEEN 18 AND 22 THEN 'evening' ELSE 'night' END AS part,
COUNT(*) FROM events GROUP BY part;

-- W008 answer
SELECT COUNT(*) FROM events WHERE happened::date = DATE '2026-11-10';

-- W009 answer
SELECT COUNT(*) FROM events WHERE happened >= NOW() - INTERVAL '24 hours';

-- W010 answer
SELECT COUNT(*) FROM events WHERE happened BETWEEN '2026-11-01' AND '2026-11-08 23:59:59';

-- W011 answer
SELECT page, AVG(duration_ms) / 1000.0 AS seconds FROM events GROUP BY page ORDER BY seconds DESC LIMIT 3;

-- W012 answer
SELECT SPLIT_PART(page, '/', 2) AS section, COUNT(*) FROM events GROUP BY 1;

-- W013 answer
SELECT COUNT(*) FROM events WHERE page LIKE '/product/%';

-- W014 answer
SELECT COALESCE(campaign, 'none') AS campaign, COUNT(*) AS n FROM events GROUP BY 1 ORDER BY n DESC;

-- W015 answer
SELECT campaign IS NULL AS organic, AVG(revenue) FROM events GROUP BY 1;

-- W016 answer
SELECT COUNT(*) FILTER (WHERE page = '/checkout')::float / NULLIF(COUNT(*) FILTER (WHERE page = '/cart'), 0) AS funnel
FROM events;

-- W017 wide
SELECT country, SUM(revenue) AS rev, RANK() OVER (ORDER BY SUM(revenue) DESC) AS rk, ROUND(100 * SUM(revenue) /
SUM(SUM(revenue)) OVER (), 2) AS share FROM events GROUP BY country;

-- W018 answer
SELECT DATE_TRUNC('day', happened) AS d, AVG(SUM(revenue)) OVER (ORDER BY DATE_TRUNC('day', happened) ROWS BETWEEN 6
PRECEDING AND CURRENT ROW) AS ma7 FROM events WHERE happened >= '2026-10-05' GROUP BY 1 ORDER BY 1;

-- W019 answer
SELECT device, COUNT(*) FILTER (WHERE duration_ms < 10000) AS bounces, COUNT(*) FILTER (WHERE duration_ms IS NULL) AS
unknown FROM events GROUP BY device;

-- W020 answer
SELECT SUM(revenue) / NULLIF(COUNT(*) FILTER (WHERE converted), 0) AS aov FROM events;

-- W021 refuse
SELECT DATE_TRUNC('month', happened), COUNT(DISTINCT user_id) AS mau FROM events GROUP BY 1;

-- W022 refuse
SELECT COUNT(*) FROM (SELECT user_id FROM events GROUP BY user_id HAVING SUM(revenue) > 100) t;

-- W023 refuse
SELECT user_id, COUNT(*) FROM events GROUP BY user_id ORDER BY 2 DESC LIMIT 10;

-- W024 refuse
SELECT user_id, SUM(revenue) OVER (PARTITION BY user_id ORDER BY happened) FROM events;

-- W025 answer
SELECT COUNT(*) FROM events WHERE country NOT IN ('US', 'GB') AND revenue > 0;

-- W026 answer
SELECT happened::date AS day, COUNT(*) FROM events WHERE happened < '2026-11-08' GROUP BY happened::date ORDER BY day
DESC;

-- W027 answer
SELECT EXTRACT(epoch FROM happened) > 1794700800 AS later, COUNT(*) FROM events GROUP BY 1;

-- W028 wide
SELECT DATE_PART('hour', happened) AS hour, COUNT(*)::numeric / COUNT(*) FILTER (WHERE device = 'mobile') AS ratio
FROM events GROUP BY hour ORDER BY hour;

-- W029 answer
SELECT device, country, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY device ORDER BY COUNT(*) DESC) AS rn FROM
events GROUP BY device, country;

-- W030 answer
SELECT * FROM (SELECT country, SUM(revenue) AS r FROM events GROUP BY country) q WHERE r > 100 ORDER BY r DESC;

-- W031 refuse
WITH daily AS (SELECT DATE_TRUNC('day', happened) AS d, SUM(revenue) AS r FROM events GROUP BY 1) SELECT AVG(r) FROM
daily;

-- W032 refuse
WITH daily AS (SELECT DATE_TRUNC('day', happened) AS d, SUM(revenue) AS r FROM events GROUP BY 1), w AS (SELECT d, r
FROM daily WHERE EXTRACT(isodow FROM d) IN (6, 7)) SELECT * FROM w ORDER BY d;

-- W033 within
SELECT device, MAX(revenue) FROM events GROUP BY device;

-- W034 answer
SELECT SUM(CASE WHEN device = 'mobile' AND converted THEN revenue ELSE 0 END) AS mobile_rev, SUM(CASE WHEN device =
'desktop' THEN revenue END) AS desktop_rev FROM events;

-- W035 answer
SELECT AVG(revenue) FILTER (WHERE converted) AS aov, AVG(converted::int) * 100 AS cr, COUNT(*) FROM events WHERE
happened >= TIMESTAMP '2026-11-01 00:00:00' AND happened < TIMESTAMP '2026-11-01 00:00:00' + INTERVAL '1 week';

-- W036 answer
SELECT TRIM(BOTH '/' FROM page) AS p, COUNT(*) FROM events GROUP BY 1;

-- W037 answer
SELECT page ~ '^/product' AS is_product, COUNT(*) FROM events GROUP BY 1;

-- W038 answer
SELECT COUNT(*) FROM events WHERE REGEXP_LIKE(page, 'cart|checkout');

-- W039 answer
SELECT CONCAT(device, '-', country) AS seg, SUM(revenue) FROM events WHERE country IN ('DE', 'FR') GROUP BY 1 ORDER BY
2 DESC LIMIT 5;

-- W040 answer
SELECT INITCAP(device) AS device, COUNT(*) FROM events GROUP BY 1 ORDER BY 1;

-- W041 wide
SELECT country, SUM(revenue) FILTER (WHERE happened < '2026-11-01') AS oct, SUM(revenue) FILTER (WHERE happened >=
'2026-11-01') AS nov, SUM(revenue) FILTER (WHERE happened >= '2026-11-01') / NULLIF(SUM(revenue) FILTER (WHERE
happened < '2026-11-01'), 0) - 1 AS growth FROM events GROUP BY country;

-- W042 answer
SELECT DATE_TRUNC('hour', happened) + INTERVAL '1 hour' AS upto, COUNT(*) FROM events WHERE happened >= '2026-11-10'
AND happened < '2026-11-11' GROUP BY 1 ORDER BY 1;

-- W043 refuse
SELECT device, SUM(revenue) AS r, CUME_DIST() OVER (ORDER BY SUM(revenue)) FROM events GROUP BY device;

-- W044 public
SELECT COUNT(*), SUM(revenue) FROM events WHERE FALSE;

-- W045 answer
SELECT COUNT(*) FROM events WHERE revenue::numeric(10,2) > 99.99;
