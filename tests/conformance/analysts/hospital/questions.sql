-- H101 answer
SELECT ward, COUNT(*) AS stays, ROUND(AVG(cost), 1) AS avg_cost FROM stays GROUP BY ward ORDER BY avg_cost DESC LIMIT 3;


-- H102 answer
SELECT ward, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM stays GROUP BY ward ORDER BY pct DESC;


-- H103 answer
SELECT s.ward, AVG(s.discharged - s.admitted) AS los FROM stays s WHERE s.admitted >= '2025-01-01' GROUP BY s.ward;


-- H104 answer
SELECT CASE WHEN discharged - admitted = 0 THEN 'same day' WHEN discharged - admitted <= 3 THEN '1-3'
WHEN discharged - admitted <= 7 THEN '4-7' ELSE '8+' END AS los_bucket, COUNT(*) FROM stays GROUP BY los_bucket;


-- H105 answer
SELECT DATE_TRUNC('quarter', admitted)::date AS q, SUM(cost) AS revenue FROM stays WHERE admitted >= DATE '2025-01-01'
GROUP BY q ORDER BY q;


-- H106 answer
SELECT EXTRACT(year FROM admitted) AS y, EXTRACT(month FROM admitted) AS m, COUNT(*) AS n FROM stays
GROUP BY 1, 2 ORDER BY 1, 2;


-- H107 answer
SELECT COUNT(CASE WHEN ward = 'surgery' THEN 1 END) AS surgery, COUNT(CASE WHEN ward = 'oncology' THEN 1 END) AS onc
FROM stays;


-- H108 answer
SELECT COUNT(*) FILTER (WHERE readmitted) * 1.0 / COUNT(*) AS readmission_rate FROM stays
WHERE ward NOT IN ('palliative', 'maternity');


-- H109 answer
SELECT ward, AVG(CASE WHEN readmitted THEN 1.0 ELSE 0.0 END) AS rate FROM stays GROUP BY ward ORDER BY rate;


-- H110 answer
SELECT COUNT(*) FROM stays WHERE readmitted IS TRUE AND cost > 5000;


-- H111 answer
SELECT COUNT(*) FROM stays WHERE readmitted = false;


-- H112 answer
SELECT COUNT(*) FROM stays WHERE admitted >= CURRENT_DATE - INTERVAL '30 days';


-- H113 answer
SELECT COUNT(*) FROM stays WHERE admitted > CURRENT_DATE - 90;


-- H114 answer
SELECT sex, AVG(2026 - birth_year) AS mean_age FROM patients GROUP BY sex;


-- H115 answer
SELECT AVG(EXTRACT(YEAR FROM CURRENT_DATE) - birth_year) AS mean_age FROM patients;


-- H116 answer
SELECT (birth_year / 10) * 10 AS decade, COUNT(*) FROM patients GROUP BY 1 ORDER BY 1;
-- exactly
SELECT birth_year AS decade, COUNT(*) FROM patients GROUP BY 1 ORDER BY 1;


-- H117 answer
SELECT FLOOR(birth_year / 10.0) * 10 AS decade, COUNT(*) FROM patients GROUP BY decade ORDER BY decade;


-- H118 answer
SELECT region, sex, COUNT(*) AS n FROM patients GROUP BY ROLLUP (region, sex) ORDER BY region, sex;


-- H119 within
SELECT ward, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY cost) AS p90 FROM stays GROUP BY ward;


-- H120 wide
SELECT ward, SUM(cost) / COUNT(*) AS cost_per_stay, SUM(cost) * 1.0 / SUM(discharged - admitted) AS cost_per_day
FROM stays GROUP BY ward;


-- H121 answer
WITH monthly AS (SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS n FROM stays GROUP BY 1)
SELECT month, n FROM monthly WHERE n > 60 ORDER BY month;


-- H122 answer
SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS rnk FROM stays GROUP BY ward ORDER BY rnk;


-- H123 answer
SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS n,
AVG(COUNT(*)) OVER (ORDER BY DATE_TRUNC('month', admitted) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS rolling
FROM stays GROUP BY 1 ORDER BY 1;


-- H124 answer
SELECT DATE_TRUNC('month', admitted) AS month, SUM(COUNT(*)) OVER (ORDER BY DATE_TRUNC('month', admitted)) AS running
FROM stays GROUP BY 1 ORDER BY 1;


-- H125 refuse
SELECT 'all' AS ward, COUNT(*) AS n FROM stays UNION ALL SELECT 'surgery', COUNT(*) FROM stays WHERE ward = 'surgery';


-- H126 answer
SELECT COUNT(*) AS "Total Stays", AVG(cost) AS "Mean Cost" FROM stays;


-- H127 answer
/* Monthly report */ SELECT COUNT(*) FROM stays -- all of them
WHERE ward IN ('surgery', 'medicine');


-- H128 answer
SELECT COUNT(*) FROM public.stays;
-- exactly
SELECT COUNT(*) FROM stays;


-- H129 answer
SELECT diagnosis, COUNT(*) AS n FROM stays WHERE diagnosis ILIKE 'c%' GROUP BY diagnosis HAVING COUNT(*) >= 10
ORDER BY n DESC, diagnosis;


-- H130 answer
SELECT LEFT(diagnosis, 1) AS chapter, COUNT(*) FROM stays GROUP BY 1;


-- H131 answer
SELECT SUBSTRING(diagnosis, 1, 2) AS grp, COUNT(*) AS n FROM stays GROUP BY 1 ORDER BY n DESC;


-- H132 answer
SELECT UPPER(ward) AS ward, COUNT(*) FROM stays GROUP BY 1;


-- H133 within
SELECT ward, MAX(cost) - MIN(cost) AS spread FROM stays GROUP BY ward;


-- H134 answer
SELECT COUNT(*) FROM stays WHERE EXTRACT(ISODOW FROM admitted) IN (6, 7);


-- H135 answer
SELECT CASE WHEN EXTRACT(dow FROM admitted) IN (0, 6) THEN 'weekend' ELSE 'weekday' END AS day_type, COUNT(*) AS n,
AVG(discharged - admitted) AS los FROM stays GROUP BY 1;


-- H136 wide
SELECT CORR(discharged - admitted, cost) AS r, REGR_SLOPE(cost, discharged - admitted) AS cost_per_night,
REGR_INTERCEPT(cost, discharged - admitted) AS fixed FROM stays;


-- H137 answer
SELECT STDDEV_SAMP(cost) / NULLIF(AVG(cost), 0) AS cv FROM stays;


-- H138 answer
SELECT AVG(cost) + 1.96 * STDDEV(cost) AS upper_limit FROM stays;


-- H139 answer
SELECT TO_CHAR(admitted, 'YYYY-MM') AS month, COUNT(*) FROM stays GROUP BY 1 ORDER BY 1;
-- exactly
SELECT STRFTIME(admitted, '%Y-%m') AS month, COUNT(*) FROM stays GROUP BY 1 ORDER BY 1;


-- H140 answer
SELECT COUNT(*) FROM stays WHERE admitted BETWEEN '2026-01-01' AND '2026-03-31' AND discharged IS NOT NULL;


-- H141 answer
SELECT ward, COUNT(*) FROM stays WHERE YEAR(admitted) = 2025 GROUP BY ward;


-- H142 answer
SELECT DATEDIFF(day, '2026-01-01', admitted) >= 0 AS this_year, COUNT(*) FROM stays GROUP BY 1;
-- exactly
SELECT admitted >= '2026-01-01', COUNT(*) FROM stays GROUP BY 1;


-- H143 answer
SELECT TOP 3 ward, SUM(cost) AS total FROM stays GROUP BY ward ORDER BY total DESC;
-- exactly
SELECT ward, SUM(cost) AS total FROM stays GROUP BY ward ORDER BY total DESC LIMIT 3;


-- H144 within
SELECT readmitted, COUNT(*), AVG(cost), MEDIAN(cost) FROM stays GROUP BY readmitted;


-- H145 answer
SELECT COUNT(*) FROM stays WHERE NOT readmitted AND (ward = 'surgery' OR ward = 'cardiology') AND cost BETWEEN 1000 AND 5000;


-- H146 answer
SELECT SUM(CASE WHEN cost > 10000 THEN cost END) / SUM(cost) AS share_expensive FROM stays;


-- H147 refuse
SELECT ward, MIN(admitted) AS first_seen FROM stays GROUP BY ward;


-- H148 answer
SELECT ward, VARIANCE(discharged - admitted) AS v FROM stays GROUP BY ward;


-- H149 answer
SELECT COUNT(*)::float / 1200 AS stays_per_patient FROM stays;
-- exactly
SELECT COUNT(*)::double / 1200 AS stays_per_patient FROM stays;


-- H150 answer
SELECT ward, n, n * 100.0 / total AS pct FROM (SELECT ward, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS total FROM stays
GROUP BY ward) t ORDER BY pct DESC;


-- H151 answer
SELECT MODE() WITHIN GROUP (ORDER BY ward) FROM stays;


-- H152 refuse
SELECT percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY cost) FROM stays;


-- H153 answer
SELECT AVG(discharged - admitted) FILTER (WHERE ward = 'surgery') - AVG(discharged - admitted) FILTER (WHERE ward = 'medicine')
AS diff FROM stays;


-- H154 answer
SELECT EXTRACT(month FROM admitted) AS m, AVG(cost) FROM stays WHERE ward = 'medicine' GROUP BY m HAVING COUNT(*) > 5 ORDER BY m;


-- H155 answer
SELECT COUNT(*) FROM stays WHERE admitted >= DATE_TRUNC('month', CURRENT_DATE);


-- H156 answer
SELECT COUNT(*) FROM stays WHERE admitted >= DATE_TRUNC('month', CURRENT_DATE) - INTERVAL '1 month'
AND admitted < DATE_TRUNC('month', CURRENT_DATE);


-- H157 answer
SELECT COUNT(*) FROM patients WHERE 2026 - birth_year >= 65;


-- H158 answer
SELECT sex, COUNT(*) FILTER (WHERE birth_year <= 1961) AS seniors, COUNT(*) AS n FROM patients GROUP BY sex;


-- H159 refuse
SELECT ward, COUNT(*) OVER () FROM stays GROUP BY ward;


-- H160 refuse
SELECT ward, cost FROM stays ORDER BY cost DESC LIMIT 5;


-- H161 refuse
SELECT COUNT(*) FROM stays WHERE EXISTS (SELECT 1 FROM patients p WHERE p.patient_id = stays.patient_id AND p.sex = 'f');


-- H162 refuse
SELECT ward, COUNT(DISTINCT diagnosis) FROM stays GROUP BY ward;


-- H163 refuse
SELECT AVG(cost) FROM stays WHERE cost > (SELECT AVG(cost) FROM stays);


-- H164 refuse
SELECT DISTINCT ward FROM stays;


-- H165 within
SELECT COUNT(*) AS n, SUM(cost), AVG(cost), STDDEV(cost), MIN(cost), MEDIAN(cost), MAX(cost) FROM stays;


-- H166 answer
SELECT COALESCE(SUM(cost), 0) FROM stays WHERE ward = 'palliative' AND admitted >= DATE '2026-06-01';


-- H167 answer
SELECT ward, SUM(cost) / 1e3 AS kchf FROM stays GROUP BY ward ORDER BY 2 DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY;


-- H168 answer
SELECT CASE ward WHEN 'surgery' THEN 'operative' WHEN 'maternity' THEN 'operative' ELSE 'conservative' END AS kind,
SUM(cost) AS cost, COUNT(*) AS n FROM stays GROUP BY kind ORDER BY kind;


-- H169 refuse
SELECT age(discharged, admitted) > INTERVAL '10 days' AS long_stay, COUNT(*) FROM stays GROUP BY 1;
-- exactly
SELECT discharged - admitted > 10 AS long_stay, COUNT(*) FROM stays GROUP BY 1;


-- H170 answer
SELECT date_part('year', admitted) AS yr, ward, COUNT(*) FROM stays GROUP BY yr, ward HAVING COUNT(*) > 100 ORDER BY yr, ward;


-- H171 answer
SELECT IF(readmitted, 'yes', 'no') AS again, COUNT(*) FROM stays GROUP BY 1;


-- H172 answer
SELECT IIF(cost > 5000, 1, 0) AS expensive, COUNT(*) FROM stays GROUP BY IIF(cost > 5000, 1, 0);
-- exactly
SELECT CASE WHEN cost > 5000 THEN 1 ELSE 0 END AS expensive, COUNT(*) FROM stays GROUP BY 1;


-- H173 answer
SELECT COUNT_IF(cost > 10000) * 100.0 / COUNT(*) AS pct FROM stays;


-- H174 answer
SELECT SUM(readmitted::int) AS readmissions, SUM(CAST(readmitted AS INTEGER)) * 1.0 / COUNT(*) AS rate FROM stays;


-- H175 answer
SELECT ward, SUM(IF(readmitted, 1, 0)) AS r FROM stays GROUP BY ward ORDER BY r DESC;

-- H201 answer
SELECT DATE_TRUNC('month', admitted) AS month, ward, COUNT(*) AS n FROM stays WHERE admitted BETWEEN '2025-01-01'
AND '2025-06-30' GROUP BY month, ward HAVING COUNT(*) > 3 ORDER BY month, n DESC, ward;

-- H202 answer
SELECT CONCAT(EXTRACT(YEAR FROM admitted), '-Q', EXTRACT(QUARTER FROM admitted)) AS q, COUNT(*) FROM stays
GROUP BY 1 ORDER BY 1;

-- H203 answer
SELECT EXTRACT(YEAR FROM admitted)::text || '-Q' || EXTRACT(QUARTER FROM admitted)::text AS q, COUNT(*)
FROM stays GROUP BY 1;

-- H204 refuse
SELECT ward, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY COUNT(*) DESC) AS cum FROM stays GROUP BY ward;

-- H205 answer
SELECT ward, 100.0 * SUM(cost) / SUM(SUM(cost)) OVER () AS pct_cost, 100.0 * COUNT(*) / SUM(COUNT(*))
OVER () AS pct_n FROM stays GROUP BY ward ORDER BY ward;

-- H206 answer
SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE cost < 1000) AS lt1k, COUNT(*) FILTER (WHERE cost >= 1000
AND cost < 5000) AS mid, COUNT(*) FILTER (WHERE cost >= 5000) AS hi FROM stays;

-- H207 answer
SELECT ward, AVG(cost)::numeric(10,2) AS avg_cost FROM stays GROUP BY ward ORDER BY avg_cost DESC NULLS
LAST;

-- H208 answer
SELECT s.ward AS w, COUNT(*) FROM stays AS s WHERE s.readmitted AND s.ward <> 'palliative' GROUP BY w
ORDER BY w;

-- H209 answer
SELECT ward, n FROM (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward) AS counts ORDER BY n DESC LIMIT
1;

-- H210 answer
WITH recent AS (SELECT ward, cost, discharged - admitted AS los FROM stays WHERE admitted >= DATE '2026-01-01'),
agg AS (SELECT ward, AVG(los) AS mean_los, COUNT(*) AS n FROM recent GROUP BY ward) SELECT ward, mean_los
FROM agg WHERE n >= 20 ORDER BY ward;

-- H211 answer
SELECT SUM(CASE WHEN diagnosis LIKE 'I%' THEN cost ELSE 0 END)::float8 / SUM(cost) AS cardio_share FROM
stays;

-- H212 answer
SELECT CASE WHEN diagnosis IN ('I20','I21','I25') THEN 'ischaemic' WHEN diagnosis LIKE 'I%' THEN 'other heart'
ELSE 'other' END grp, COUNT(*) n FROM stays GROUP BY grp ORDER BY n DESC;

-- H213 answer
SELECT DATE_PART('week', admitted) AS wk, COUNT(*) FROM stays WHERE DATE_PART('year', admitted) = 2025
GROUP BY wk ORDER BY wk;

-- H214 answer
SELECT admitted::date AS d, COUNT(*) FROM stays WHERE admitted >= CURRENT_DATE - 14 AND admitted <= '2026-11-15'
GROUP BY d ORDER BY d;

-- H215 answer
SELECT COUNT(*) FROM stays WHERE admitted < discharged AND discharged <= admitted + 7;

-- H216 answer
SELECT COUNT(*) FROM stays WHERE discharged - admitted >= 3 AND NOT (ward LIKE 'c%');

-- H217 answer
SELECT AVG(CASE WHEN ward = 'surgery' THEN cost END) - AVG(CASE WHEN ward = 'medicine' THEN cost END)
AS diff FROM stays;

-- H219 answer
SELECT ROUND(AVG(cost), -2) AS rounded, FLOOR(AVG(cost)) AS down, CEIL(AVG(cost)) AS up, ABS(AVG(cost)
- 3000) AS off FROM stays;

-- H220 answer
SELECT ward, GROUPING(ward) AS g, COUNT(*) FROM stays GROUP BY ROLLUP (ward);

-- H221 answer
SELECT CASE WHEN GROUPING(ward) = 1 THEN 'Total' ELSE ward END AS ward, COUNT(*) FROM stays GROUP BY ROLLUP
(ward);

-- H222 refuse
SELECT ward, COUNT(*) * 100 / (SELECT COUNT(*) FROM stays) AS pct FROM stays GROUP BY ward;

-- H223 refuse
SELECT CASE WHEN COUNT(*) > 1000 THEN 'many' ELSE 'few' END FROM stays;

-- H224 wide
SELECT ward, CASE WHEN COUNT(*) > 0 THEN SUM(cost) / COUNT(*) ELSE 0 END AS m FROM stays GROUP BY ward;

-- H225 wide
SELECT ward, CASE WHEN COUNT(*) = 0 THEN NULL ELSE SUM(cost) / COUNT(*) END AS m FROM stays GROUP BY ward;

-- H226 refuse
SELECT AVG(cost) AS a, COUNT(*) AS n FROM stays WHERE ward = 'Surgery';

-- H227 answer
SELECT sex, ROUND(AVG(DATE_PART('year', CURRENT_DATE) - birth_year), 1) AS age FROM patients GROUP BY
sex ORDER BY sex;

-- H228 answer
SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r, ROUND(100.0 * COUNT(*) / SUM(COUNT(*))
OVER (), 1) AS pct FROM patients GROUP BY region;

-- H229 answer
SELECT CASE WHEN birth_year BETWEEN 1946 AND 1964 THEN 'boomer' WHEN birth_year BETWEEN 1965 AND 1980
THEN 'x' WHEN birth_year > 1980 THEN 'young' ELSE 'silent' END AS gen, sex, COUNT(*) FROM patients GROUP
BY gen, sex ORDER BY gen, sex;

-- H230 within
SELECT MIN(birth_year), MAX(birth_year), MAX(birth_year) - MIN(birth_year) AS span FROM patients;

-- H231 refuse
SELECT EXTRACT(DECADE FROM DATE '2020-01-01') AS x, COUNT(*) FROM stays GROUP BY 1;

-- H232 answer
SELECT COUNT(1) FROM stays WHERE 1 = 1 AND ward = 'surgery';

-- H233 answer
SELECT COUNT(*) FROM stays WHERE TRUE;

-- H234 answer
SELECT COUNT(*) cnt, SUM(cost) total FROM stays WHERE (ward, readmitted) IN (('surgery', true), ('oncology',
true));

-- H235 answer
SELECT ward, SUM(cost)/1000000.0 "cost (M)" FROM stays GROUP BY ward ORDER BY "cost (M)" DESC;

-- H236 answer
SELECT VAR_POP(cost), VAR_SAMP(cost), STDDEV_POP(cost), STDDEV_SAMP(cost) FROM stays;

-- H237 answer
SELECT DATE_TRUNC('year', admitted) AS yr, SUM(cost) FROM stays GROUP BY CUBE (yr) ORDER BY yr;

-- H238 refuse
SELECT ward, COUNT(*) FROM stays GROUP BY ward HAVING COUNT(*) > (SELECT COUNT(*) / 6 FROM stays);

-- H239 answer
SELECT COUNT(*) FROM stays LIMIT 10;

-- H240 refuse
SELECT ward, COUNT(*) as n FROM stays WHERE ward IS NOT NULL AND ward != '' GROUP BY ward;

-- H241 answer
SELECT QUARTER(admitted) AS q, YEAR(admitted) AS y, SUM(cost) FROM stays GROUP BY YEAR(admitted), QUARTER(admitted)
ORDER BY y, q;

-- H242 answer
SELECT EXTRACT(DAY FROM admitted) AS dom, COUNT(*) FROM stays GROUP BY 1 ORDER BY 1;

-- H243 answer
SELECT EXTRACT(DOY FROM admitted) <= 90 AS first90, COUNT(*) FROM stays GROUP BY 1;

-- H244 answer
SELECT COUNT(*) FROM stays WHERE admitted >= '2026-01-01'::date AND admitted < '2026-01-01'::date + INTERVAL
'1 month';

-- H245 answer
SELECT LAST_DAY(admitted) AS month_end, COUNT(*) FROM stays GROUP BY 1;
