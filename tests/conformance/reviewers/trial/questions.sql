-- T001 answer
SELECT arm, visit_no, AVG(systolic) AS sbp FROM visits GROUP BY arm, visit_no ORDER BY arm, visit_no;

-- T002 answer
SELECT arm, AVG(systolic) AS m, STDDEV(systolic) / SQRT(COUNT(systolic)) AS se FROM visits GROUP BY arm;

-- T003 answer
SELECT arm, AVG(systolic) - 1.96 * STDDEV(systolic) / SQRT(COUNT(systolic)) AS lo, AVG(systolic) + 1.96 *
STDDEV(systolic) / SQRT(COUNT(systolic)) AS hi FROM visits GROUP BY arm;

-- T004 answer
SELECT AVG(hba1c) FILTER (WHERE arm = 'high dose') - AVG(hba1c) FILTER (WHERE arm = 'placebo') AS effect FROM visits
WHERE visit_no = 8;

-- T005 answer
SELECT arm, SUM(adverse::int) AS events, COUNT(*) AS visits, 1000.0 * SUM(adverse::int) / COUNT(*) AS per_1000 FROM
visits GROUP BY arm;

-- T006 answer
SELECT arm, severity, COUNT(*) FROM visits WHERE adverse GROUP BY arm, severity;

-- T007 answer
SELECT COALESCE(severity, 0) AS sev, COUNT(*) FROM visits GROUP BY COALESCE(severity, 0) ORDER BY sev;

-- T008 answer
SELECT SPLIT_PART(site, '-', 1) AS country, arm, COUNT(*) FROM visits GROUP BY 1, 2;

-- T009 answer
SELECT SUBSTRING(site FROM 1 FOR 2) AS country, COUNT(*) FROM visits GROUP BY 1;

-- T010 answer
SELECT COUNT(*) FILTER (WHERE systolic >= 140 OR diastolic >= 90)::numeric / COUNT(*) AS hypertensive FROM visits;

-- T011 answer
SELECT width_bucket(hba1c, 4, 12, 8) AS b, COUNT(*) FROM visits GROUP BY b ORDER BY b;

-- T012 answer
SELECT AVG(systolic - diastolic) AS pulse_pressure FROM visits;

-- T013 answer
SELECT COUNT(*) FROM visits WHERE systolic - diastolic > 60;

-- T014 answer
SELECT COUNT(*) FROM visits WHERE systolic - diastolic >= 61;

-- T015 wide
SELECT REGR_SLOPE(systolic, weight_kg) AS slope, REGR_INTERCEPT(systolic, weight_kg) AS icpt, REGR_R2(systolic,
weight_kg) AS r2, REGR_COUNT(systolic, weight_kg) AS n FROM visits;

-- T016 refuse
SELECT COVAR_POP(systolic, diastolic), REGR_AVGX(systolic, diastolic), REGR_AVGY(systolic, diastolic),
REGR_SXX(systolic, diastolic), REGR_SXY(systolic, diastolic) FROM visits;

-- T017 answer
SELECT DATE_TRUNC('quarter', visit_date)::date AS q, COUNT(*) FROM visits GROUP BY 1 ORDER BY 1;

-- T018 answer
SELECT EXTRACT(week FROM visit_date) AS wk, COUNT(*) FROM visits WHERE EXTRACT(isodow FROM visit_date) < 6 GROUP BY 1
ORDER BY 1;

-- T019 answer
SELECT visit_no, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY visit_no) AS prev, COUNT(*)::float /
NULLIF(FIRST_VALUE(COUNT(*)) OVER (ORDER BY visit_no), 0) AS retention FROM visits GROUP BY visit_no ORDER BY visit_no;

-- T020 refuse
SELECT arm, visit_no, AVG(AVG(systolic)) OVER (PARTITION BY arm ORDER BY visit_no ROWS BETWEEN 1 PRECEDING AND 1
FOLLOWING) AS smooth FROM visits GROUP BY arm, visit_no;

-- T021 refuse
SELECT COUNT(DISTINCT subject_id) FROM visits WHERE adverse;

-- T022 refuse
SELECT arm, AVG(last) FROM (SELECT arm, subject_id, MAX(visit_no) AS last FROM visits GROUP BY arm, subject_id) x
GROUP BY arm;

-- T023 refuse
SELECT DISTINCT subject_id FROM visits WHERE severity >= 4;

-- T024 wide
SELECT arm, COUNT(CASE WHEN severity >= 3 THEN 1 END) AS grade3, COUNT(CASE WHEN severity >= 3 THEN 1 END) * 100.0 /
NULLIF(COUNT(severity), 0) AS pct FROM visits GROUP BY arm ORDER BY pct DESC NULLS LAST, arm;

-- T025 answer
SELECT COUNT(*) FROM visits WHERE hba1c < 7.0 AND visit_date BETWEEN DATE '2026-01-01' AND DATE '2026-01-01' +
INTERVAL '6 months';

-- T026 answer
SELECT AVG(weight_kg * 2.20462) AS pounds FROM visits;

-- T027 answer
SELECT arm, AVG((hba1c - 2.15) * 10.929) AS mmol FROM visits GROUP BY arm;

-- T028 wide
SELECT (AVG(systolic) FILTER (WHERE arm = 'placebo') - AVG(systolic) FILTER (WHERE arm = 'low dose')) /
STDDEV_SAMP(systolic) AS cohens_d FROM visits;

-- T029 answer
SELECT SUM(POWER(systolic - 130, 2)) / COUNT(systolic) AS mse FROM visits;

-- T030 answer
SELECT CASE arm WHEN 'placebo' THEN 'control' ELSE 'active' END AS grp, visit_no > 4 AS late, AVG(hba1c) FROM visits
GROUP BY 1, 2;

-- T031 answer
SELECT REPLACE(arm, ' dose', '') AS arm2, COUNT(*) FROM visits GROUP BY 1;

-- T032 answer
SELECT COUNT(*) FROM visits WHERE LOWER(site) LIKE 'de-%' OR site = 'CH-01';

-- T033 answer
SELECT COUNT(*) FROM visits WHERE visit_date >= DATE '2026-11-18' - INTERVAL '90' DAY;

-- T034 answer
SELECT site, COUNT(*) FROM visits GROUP BY site ORDER BY COUNT(*) DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY;

-- T035 answer
SELECT AVG(systolic) AS a FROM visits WHERE COALESCE(severity, 0) <= 1 AND NOT adverse AND diastolic IS NOT NULL;

-- T036 within
SELECT PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY hba1c) - PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY hba1c) AS
iqr FROM visits;

-- T037 refuse
SELECT EVERY(adverse), BOOL_AND(NOT adverse) FROM visits;

-- T038 answer
SELECT arm, EXP(LN(AVG(systolic))) AS geo FROM visits GROUP BY arm;

-- T039 refuse
SELECT AVG(LN(hba1c)) FROM visits;

-- T040 answer
SELECT SUM((weight_kg - 80) * (systolic - 130)) FROM visits;
