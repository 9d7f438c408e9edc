-- W101 answer
SELECT channel, COUNT(*) AS orders, SUM(amount) AS revenue, SUM(amount) / COUNT(*) AS aov FROM orders GROUP BY channel
ORDER BY revenue DESC;

-- W102 answer
SELECT DATE_TRUNC('month', ordered_at) AS month, SUM(amount) AS revenue FROM orders
WHERE ordered_at >= '2026-01-01' GROUP BY month ORDER BY month;

-- W103 answer
SELECT AVG(shipped - ordered_at::date) AS days_to_ship FROM orders WHERE shipped IS NOT NULL;

-- W104 answer
SELECT COUNT(*) FILTER (WHERE shipped IS NULL) AS open, COUNT(*) AS n, 100.0 * COUNT(*) FILTER (WHERE shipped IS NULL) / COUNT(*) AS pct FROM orders;

-- W105 answer
SELECT coupon, COUNT(*), AVG(amount) FROM orders GROUP BY coupon;
-- exactly
SELECT coupon, COUNT(*), AVG(amount) FROM orders WHERE coupon IS NOT NULL GROUP BY coupon;

-- W106 answer
SELECT COALESCE(coupon, FALSE) AS used, COUNT(*) FROM orders GROUP BY 1;

-- W107 answer
SELECT COUNT(*) FROM orders WHERE coupon IS NOT TRUE;

-- W108 answer
SELECT COUNT(*) FROM orders WHERE coupon IS DISTINCT FROM TRUE;

-- W109 answer
SELECT AVG(rating) AS mean_rating, COUNT(rating) AS rated FROM orders;

-- W110 answer
SELECT rating, COUNT(*) FROM orders WHERE rating IS NOT NULL GROUP BY rating ORDER BY rating;

-- W111 answer
SELECT category, AVG(rating) AS r FROM orders GROUP BY category ORDER BY r DESC LIMIT 2;

-- W112 answer
SELECT COUNT(*) FROM orders WHERE category = 'o''brien' OR category = 'toys & games';

-- W113 answer
SELECT COUNT(*) FROM orders WHERE category LIKE '50\%%' ESCAPE '\';

-- W114 answer
SELECT COUNT(*) FROM orders WHERE category LIKE '%games' AND items >= 3;

-- W115 answer
SELECT SUM(amount * items) FROM orders WHERE channel IN ('web', 'app');

-- W116 answer
SELECT SUM(amount * (1 - 0.1 * gift::int)) AS net FROM orders;

-- W117 wide
SELECT country, SUM(amount) AS revenue, 100 * SUM(amount) / SUM(SUM(amount)) OVER () AS pct FROM orders GROUP BY country ORDER BY 3 DESC;

-- W118 answer
SELECT CASE WHEN amount < 25 THEN 'small' WHEN amount < 100 THEN 'medium' ELSE 'large' END AS size, COUNT(*) AS n, AVG(items)
FROM orders GROUP BY 1 ORDER BY n DESC;

-- W119 answer
SELECT o.channel, o.country, COUNT(*) AS n FROM orders AS o GROUP BY CUBE (o.channel, o.country);

-- W120 answer
SELECT EXTRACT(hour FROM ordered_at) AS h, COUNT(*) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 5;

-- W121 answer
SELECT COUNT(*) FROM orders WHERE ordered_at >= NOW() - INTERVAL '24 hours';

-- W122 answer
SELECT COUNT(*) FROM orders WHERE ordered_at >= DATEADD(day, -30, GETDATE());
-- exactly
SELECT COUNT(*) FROM orders WHERE ordered_at >= NOW() - INTERVAL '30 days';

-- W123 answer
SELECT DATEPART(year, ordered_at) AS yr, COUNT(*) FROM orders GROUP BY DATEPART(year, ordered_at);
-- exactly
SELECT YEAR(ordered_at) AS yr, COUNT(*) FROM orders GROUP BY 1;

-- W124 answer
SELECT COUNT(*) FROM orders WHERE DATEDIFF('day', ordered_at, shipped) > 5;
-- exactly
SELECT COUNT(*) FROM orders WHERE shipped - ordered_at::date > 5;

-- W125 within
SELECT channel, MEDIAN(amount) AS med, PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY amount) AS p95 FROM orders GROUP BY channel;

-- W126 answer
SELECT ROUND(AVG(amount)::numeric, 2) AS aov FROM orders WHERE gift;

-- W127 wide
SELECT SUM(amount) FILTER (WHERE channel = 'app') / NULLIF(SUM(amount) FILTER (WHERE channel = 'web'), 0) AS app_to_web FROM orders;

-- W128 answer
SELECT category, COUNT(*) AS n FROM orders WHERE ordered_at BETWEEN DATE '2024-02-29' AND DATE '2024-03-31' GROUP BY category;

-- W129 answer
SELECT EXTRACT(month FROM ordered_at) AS month, COUNT(*) FILTER (WHERE YEAR(ordered_at) = 2025) AS y25,
COUNT(*) FILTER (WHERE YEAR(ordered_at) = 2026) AS y26 FROM orders GROUP BY 1 ORDER BY 1;

-- W130 answer
SELECT items, COUNT(*) FROM orders GROUP BY items ORDER BY items;

-- W131 answer
SELECT channel, SUM(CASE WHEN rating >= 4 THEN 1 ELSE 0 END)::float / NULLIF(SUM(CASE WHEN rating IS NOT NULL THEN 1 ELSE 0 END), 0) AS happy
FROM orders GROUP BY channel;
-- exactly
SELECT channel, COUNT(*) FILTER (WHERE rating >= 4) * 1.0 / COUNT(rating) FROM orders GROUP BY channel;

-- W132 answer
SELECT 100.0 * (COUNT(*) FILTER (WHERE rating = 5) - COUNT(*) FILTER (WHERE rating <= 2)) / COUNT(rating) AS nps FROM orders;

-- W133 answer
SELECT SUM(GREATEST(amount - 100, 0)) AS excess, SUM(LEAST(amount, 100)) AS capped FROM orders;

-- W134 answer
SELECT AVG(amount) AS a, COUNT(*) AS n FROM orders WHERE channel = 'store' AND country <> 'MX' AND coupon AND items BETWEEN 2 AND 4;

-- W135 wide
SELECT DATE_TRUNC('month', ordered_at) AS m, 100.0 * SUM(amount) / LAG(SUM(amount)) OVER (ORDER BY DATE_TRUNC('month', ordered_at)) AS growth
FROM orders GROUP BY 1;

-- W136 answer
SELECT channel, DENSE_RANK() OVER (ORDER BY SUM(amount) DESC) AS r FROM orders GROUP BY channel;

-- W137 answer
SELECT channel, n, ROW_NUMBER() OVER (ORDER BY n DESC) AS place FROM (SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel) t;

-- W138 answer
SELECT IFNULL(SUM(amount), 0) AS revenue FROM orders WHERE country = 'MX' AND channel = 'app';

-- W139 answer
SELECT EXTRACT(week FROM ordered_at) AS wk, COUNT(*) FROM orders WHERE EXTRACT(year FROM ordered_at) = 2026 GROUP BY wk ORDER BY wk;

-- W140 answer
SELECT gift, coupon, COUNT(*) FROM orders WHERE coupon IS NOT NULL GROUP BY gift, coupon;

-- W141 answer
SELECT COUNT(*) FROM orders WHERE NOT coupon;

-- W142 refuse
SELECT BOOL_OR(gift), BOOL_AND(gift) FROM orders;

-- W143 refuse
SELECT ANY_VALUE(channel) FROM orders;

-- W144 answer
SELECT TRY_CAST(items AS DOUBLE) * 2 AS x, COUNT(*) FROM orders GROUP BY 1;

-- W145 answer
SELECT SUM(amount) / COUNT(*) FILTER (WHERE items > 1) AS x FROM orders;

-- W146 answer
SELECT "channel", COUNT(*) AS "n orders" FROM "orders" GROUP BY "channel" ORDER BY "n orders" DESC;

-- W147 answer
SELECT YEAR(ordered_at) * 100 + MONTH(ordered_at) AS ym, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1;

-- W148 answer
SELECT to_char(ordered_at, 'Day') AS day, COUNT(*) FROM orders GROUP BY 1;
-- exactly
SELECT DAYNAME(ordered_at) AS day, COUNT(*) FROM orders GROUP BY 1;

-- W149 answer
SELECT MONTHNAME(ordered_at) AS m, COUNT(*) FROM orders GROUP BY 1;

-- W150 answer
SELECT COUNT(*) FROM orders WHERE shipped - CAST(ordered_at AS DATE) BETWEEN 0 AND 2;
