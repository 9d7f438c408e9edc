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

-- W201 answer
SELECT channel, rating, COUNT(*) FROM orders WHERE rating IS NOT NULL GROUP BY channel, rating ORDER BY
channel, rating;

-- W202 answer
SELECT channel, AVG(rating * 1.0) AS r FROM orders GROUP BY channel;

-- W203 answer
SELECT rating >= 4 AS good, AVG(amount) FROM orders WHERE rating IS NOT NULL GROUP BY 1;

-- W204 refuse
SELECT STDDEV(rating), MEDIAN(rating) FROM orders;

-- W205 answer
SELECT DATE_TRUNC('week', ordered_at) AS wk, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY DATE_TRUNC('week',
ordered_at) ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS ma4 FROM orders WHERE ordered_at >= '2026-06-01'
GROUP BY wk ORDER BY wk;

-- W206 refuse
SELECT shipped - DATE(ordered_at) AS lag, COUNT(*) FROM orders WHERE shipped IS NOT NULL GROUP BY 1 ORDER
BY 1;

-- W207 answer
SELECT AVG(DATEDIFF('day', ordered_at, shipped)) FROM orders;

-- W208 answer
SELECT AVG(EXTRACT(EPOCH FROM shipped - ordered_at) / 86400) FROM orders WHERE shipped IS NOT NULL;

-- W209 answer
SELECT SUM(amount) FILTER (WHERE coupon) AS with_c, SUM(amount) FILTER (WHERE NOT coupon) AS without_c,
SUM(amount) FILTER (WHERE coupon IS NULL) AS unknown FROM orders;

-- W210 answer
SELECT CASE WHEN coupon THEN 'yes' WHEN NOT coupon THEN 'no' ELSE 'unknown' END AS c, COUNT(*) FROM orders
GROUP BY c;

-- W211 answer
SELECT category, SUM(amount) AS rev FROM orders WHERE EXTRACT(year FROM ordered_at) = 2026 GROUP BY category
ORDER BY rev DESC LIMIT 3;

-- W212 answer
SELECT SUM(amount) - LAG(SUM(amount)) OVER (ORDER BY YEAR(ordered_at)) AS yoy, YEAR(ordered_at) AS y FROM
orders GROUP BY YEAR(ordered_at) ORDER BY y;

-- W213 answer
SELECT category, channel, COUNT(*), RANK() OVER (PARTITION BY category ORDER BY COUNT(*) DESC) AS r FROM
orders GROUP BY category, channel;

-- W214 answer
SELECT channel, LEAD(COUNT(*)) OVER (ORDER BY channel) AS nxt FROM orders GROUP BY channel;

-- W215 answer
SELECT channel, FIRST_VALUE(COUNT(*)) OVER (ORDER BY channel) AS f FROM orders GROUP BY channel;

-- W216 answer
SELECT SUM(amount * items * 0.5) FROM orders;

-- W217 refuse
SELECT category, AVG(amount / items) FROM orders GROUP BY category;

-- W218 answer
SELECT country, COUNT(*) FILTER (WHERE gift)::numeric / COUNT(*) AS gift_rate FROM orders GROUP BY country
ORDER BY gift_rate DESC;

-- W219 answer
SELECT DATE_FORMAT(ordered_at, '%Y-%m') AS ym, COUNT(*) FROM orders GROUP BY 1;
-- exactly
SELECT STRFTIME(ordered_at, '%Y-%m') AS ym, COUNT(*) FROM orders GROUP BY 1;

-- W220 answer
SELECT strftime(ordered_at, '%Y-%m') AS ym, COUNT(*) FROM orders GROUP BY ym ORDER BY ym;

-- W221 answer
SELECT FORMAT(ordered_at, 'yyyy-MM') AS ym, COUNT(*) FROM orders GROUP BY FORMAT(ordered_at, 'yyyy-MM');
-- exactly
SELECT STRFTIME(ordered_at, '%Y-%m') AS ym, COUNT(*) FROM orders GROUP BY 1;

-- W222 answer
SELECT EXTRACT(YEAR FROM ordered_at) || '-' || EXTRACT(MONTH FROM ordered_at) AS ym, COUNT(*) FROM orders
GROUP BY 1;

-- W223 answer
SELECT category, COUNT(*) FROM orders WHERE category ILIKE '%GAMES%' OR category LIKE 'b__ks' GROUP BY
category;

-- W224 answer
SELECT category = ANY(ARRAY['books','garden']) AS b, COUNT(*) FROM orders GROUP BY 1;

-- W225 refuse
SELECT COUNT(*) FROM orders WHERE channel = ANY('{web,app}');

-- W226 within
SELECT width_bucket(amount, 0, 500, 5) AS b, MIN(amount), MAX(amount), COUNT(*) FROM orders GROUP BY b
ORDER BY b;

-- W227 answer
SELECT NVL(rating, 0) AS r, COUNT(*) FROM orders GROUP BY NVL(rating, 0);
-- exactly
SELECT COALESCE(rating, 0) AS r, COUNT(*) FROM orders GROUP BY 1;

-- W228 answer
SELECT CAST(ordered_at AS DATE) AS d, COUNT(*) FROM orders WHERE ordered_at >= '2024-02-28' AND ordered_at
< '2024-03-02' GROUP BY CAST(ordered_at AS DATE) ORDER BY d;

-- W229 answer
SELECT COUNT(*) FROM orders WHERE ordered_at::date = '2024-02-29';

-- W230 answer
SELECT COUNT(*) FROM orders WHERE EXTRACT(month FROM ordered_at) = 12 AND EXTRACT(day FROM ordered_at)
BETWEEN 20 AND 26;

-- W231 answer
SELECT SUM(items) AS units, SUM(amount)/SUM(items) AS price FROM orders WHERE category = 'books';

-- W232 refuse
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel UNION ALL SELECT 'total', COUNT(*) FROM orders;

-- W234 refuse
SELECT 'web' AS channel, COUNT(*) AS n FROM orders WHERE channel = 'web';

-- W235 refuse
SELECT channel, 'x' AS tag, COUNT(*) FROM orders GROUP BY channel;

-- W236 answer
SELECT EXTRACT(dow FROM ordered_at) AS d, CASE EXTRACT(dow FROM ordered_at) WHEN 0 THEN 'Sun' WHEN 6 THEN
'Sat' ELSE 'week' END AS kind, COUNT(*) FROM orders GROUP BY 1, 2;

-- W237 refuse
SELECT AVG(amount) FROM orders WHERE amount BETWEEN (SELECT QUANTILE(amount, 0.05) FROM orders) AND 500;

-- W238 answer
SELECT channel, SUM(amount) AS s FROM orders GROUP BY channel HAVING s > 1000 ORDER BY s;

-- W239 answer
SELECT channel, SUM(amount) AS amount FROM orders GROUP BY channel ORDER BY amount DESC;

-- W240 answer
SELECT COUNT(*) FROM orders o WHERE o.shipped > o.ordered_at + INTERVAL '5 days';
