"""Other spellings of one question have one digest, and questions that are not the same never share one."""

from __future__ import annotations

from datetime import datetime

import pytest

from noisebank.core.errors import Misuse
from noisebank.policy.file import read_policy
from noisebank.policy.model import Policy
from noisebank.queries.current_time import write_moment
from noisebank.queries.selects import parse_select_list
from noisebank.queries.sql import list_tables

POLICY = """
name = "t"
source = "t.csv"
neighbours = "add-remove"
row_cap = 1000
[budget]
epsilon = 8
delta = 1e-6
[columns.kind]
type = "text"
keys = ["books", "garden", "50%_off"]
[columns.sex]
type = "text"
keys = ["f", "m"]
complete = true
[columns.pay]
type = "integer"
bounds = [0, 200000]
[columns.items]
type = "integer"
bounds = [1, 12]
bins = [2, 3, 4, 5, 6]
nullable = true
[columns.stars]
type = "integer"
keys = [1, 2, 3]
complete = true
nullable = true
[columns.coupon]
type = "boolean"
nullable = true
[columns.born]
type = "date"
bounds = ["1930-01-01", "2010-12-31"]
[columns.sent]
type = "date"
bounds = ["2024-01-01", "2027-01-31"]
nullable = true
[columns.seen]
type = "timestamp"
zone = "America/New_York"
bounds = ["2024-01-01", "2026-12-31 23:59:59"]
[columns.landed]
type = "timestamp"
zone = "Europe/Zurich"
bounds = ["1969-06-01", "1970-08-31 23:59:59"]
"""
NOW = datetime(2026, 11, 18, 12)
SAME = {
    "pairs": [
        "SELECT COUNT(*) FROM t WHERE items IS NOT NULL AND pay > 5",
        "SELECT REGR_COUNT(pay, items) FROM t WHERE pay > 5",
        "SELECT COUNT(x.items) FROM public.t AS x WHERE x.pay >= 6",
        "SELECT COUNT(CASE WHEN items IS NOT NULL THEN 1 END) FROM dbo.t WHERE NOT t.pay <= 5",
    ],
    "patterns": [
        "SELECT COUNT(*) FROM t WHERE kind = '50%_off'",
        "SELECT COUNT(*) FROM t WHERE kind LIKE '50!%!_%' ESCAPE '!'",
        r"SELECT COUNT(*) FROM t WHERE kind LIKE '50\%%'",
        "SELECT COUNT(*) FROM t WHERE kind = ANY(ARRAY['50%_off'])",
        "SELECT COUNT(*) FROM t WHERE UPPER(kind) = '50%_OFF'",
        "SELECT COUNT(*) FROM t WHERE LEFT(kind, 2) || '!' = '50!'",
        "SELECT COUNT(*) FROM t WHERE SUBSTRING(kind, 1, 1) = '5'",
        "SELECT COUNT_IF(CONCAT(RIGHT(kind, 3), 'er') = 'offer') FROM t",
    ],
    "matches": [
        "SELECT COUNT(*) FROM t WHERE kind IN ('books', 'garden')",
        "SELECT COUNT(*) FROM t WHERE kind SIMILAR TO '(book|garden)s?'",
        "SELECT COUNT(*) FROM t WHERE kind ~ '^[a-z]+$'",
        "SELECT COUNT(*) FROM t WHERE UPPER(kind) ~* 'oo|ar'",
        "SELECT COUNT(*) FROM t WHERE REGEXP_LIKE(kind, '^(b|G)', 'i')",
        "SELECT COUNT(*) FROM t WHERE kind LIKE ANY(ARRAY['b%', 'g%'])",
        "SELECT COUNT(*) FROM t WHERE REPLACE(kind, 'o', '') LIKE 'bk_' OR STRPOS(kind, 'den') = 4",
        "SELECT COUNT(*) FROM t WHERE LENGTH(kind) < 7",
        "SELECT COUNT(*) FROM t WHERE INITCAP(kind) IN ('Books', 'Garden')",
        "SELECT COUNT(*) FROM t WHERE SPLIT_PART(kind, 'o', 1) = 'b' OR REVERSE(kind) = 'nedrag'",
        "SELECT COUNT(*) FROM t WHERE TRIM(BOTH 'bs' FROM kind) = 'ook' OR BTRIM(kind, 'gn') = 'arde'",
        "SELECT COUNT(*) FROM t WHERE (kind, 1) IN (('books', 1), ('garden', 1))",
        "SELECT COUNT(*) FROM t WHERE kind IN (VALUES ('books'), ('garden'))",
    ],
    "missing differences": [
        "SELECT COUNT(*) FROM t WHERE sent - seen::date > 5",
        "SELECT COUNT(*) FROM t WHERE sent - seen::date >= 6",
        "SELECT COUNT(*) FROM t WHERE NOT sent - seen::date <= 5",
        "SELECT COUNT(*) FROM t WHERE NOT sent - seen::date < 6",
        "SELECT COUNT(*) FROM t WHERE seen::date - sent < -5",
        "SELECT COUNT(*) FROM t WHERE 2 * (sent - seen::date) > 11",
        "SELECT COUNT(CASE WHEN sent - seen::date <= 5 THEN NULL WHEN sent - seen::date > 5 THEN 1 END) FROM t",
        "SELECT SUM(CASE WHEN sent - seen::date > 5 THEN 1 ELSE 0 END) FROM t",
    ],
    "other differences": [
        "SELECT COUNT(*) FROM t WHERE sent - seen::date NOT IN (5, 7)",
        "SELECT COUNT(*) FROM t WHERE NOT (sent - seen::date = 5 OR sent - seen::date = 7)",
        "SELECT COUNT(*) FROM t WHERE sent - seen::date <> 5 AND sent - seen::date <> 7",
        "SELECT COUNT(*) FROM t WHERE sent - seen::date <> ALL(ARRAY[5, 7])",
        "SELECT COUNT(*) FROM t WHERE sent - seen::date < 5 OR sent - seen::date = 6 OR sent - seen::date > 7",
    ],
    "ends": [
        "SELECT COUNT(*) FROM t WHERE pay BETWEEN 5 AND 9",
        "SELECT COUNT(*) FROM t WHERE pay BETWEEN SYMMETRIC 9 AND 5",
        "SELECT COUNT(*) FROM t WHERE pay IN (5, 6, 7, 8, 9)",
        "SELECT COUNT(*) FROM t WHERE pay * pay - 14 * pay IN (-45, -48, -49)",
    ],
    "clocks": [
        "SELECT COUNT(*) FROM t WHERE seen::time >= '22:00'",
        "SELECT COUNT(*) FROM t WHERE CAST(seen AS TIME) > TIME '21:59:59'",
        "SELECT COUNT(*) FROM t WHERE NOT seen::time < '22:00:00'",
        "SELECT COUNT(*) FROM t WHERE seen::time BETWEEN '22:00' AND '23:59:59'",
    ],
    "values": [
        "SELECT items2, COUNT(*) FROM (SELECT pay % 4 AS items2 FROM t) AS x GROUP BY items2",
        "SELECT MOD(pay, 4) + 1, COUNT(*) FROM t GROUP BY 1",
    ],
    "days": [
        "SELECT COUNT(*) FROM t WHERE seen >= DATE '2026-10-19'",
        "SELECT COUNT(*) FROM t WHERE seen >= DATEADD(day, -30, DATE '2026-11-18')",
        "SELECT COUNT(*) FROM t WHERE seen >= CURRENT_DATE - 30",
        "SELECT COUNT(*) FROM t WHERE seen::date >= '2026-10-19'",
        "SELECT COUNT(*) FROM t WHERE NOT DATE_TRUNC('day', seen) < '2026-10-19'",
        "SELECT COUNT(*) FROM t WHERE time_bucket('1 day', seen) >= '2026-10-19'",
        "SELECT COUNT(*) FROM t WHERE TIMESTAMP '2026-10-19 00:00' <= date_bin('1 day', seen, DATE '2000-01-01')",
    ],
    "months": [
        "SELECT DATE_TRUNC('month', seen) AS m, COUNT(*) FROM t GROUP BY 1",
        "SELECT TO_CHAR(seen, 'YYYY-MM'), COUNT(*) FROM t GROUP BY 1",
        "SELECT STRFTIME(seen, '%m/%Y'), COUNT(*) FROM t GROUP BY 1",
        "SELECT DATE_FORMAT(seen, '%Y-%m'), COUNT(*) FROM t GROUP BY 1",
        "SELECT FORMAT(seen, 'yyyy-MM'), COUNT(*) FROM t GROUP BY FORMAT(seen, 'yyyy-MM')",
        "SELECT YEAR(seen) * 100 + DATEPART(month, seen), COUNT(*) FROM t GROUP BY 1",
        "SELECT YEAR(seen) || '-' || MONTH(seen)::text, COUNT(*) FROM t GROUP BY 1",
        "SELECT LAST_DAY(seen), COUNT(*) FROM t GROUP BY 1",
        "SELECT time_bucket(INTERVAL '1 month', seen), COUNT(*) FROM t GROUP BY 1",
    ],
    "weekdays": [
        "SELECT EXTRACT(dow FROM seen), COUNT(*) FROM t GROUP BY 1",
        "SELECT TO_CHAR(seen, 'Day'), COUNT(*) FROM t GROUP BY 1",
        "SELECT DAYNAME(seen), COUNT(*) FROM t GROUP BY 1",
        "SELECT EXTRACT(isodow FROM seen), COUNT(*) FROM t GROUP BY 1",
    ],
    "codes": [
        "SELECT AVG(stars) FROM t",
        "SELECT AVG(1.0 * stars) FROM t",
        "SELECT SUM(stars) / COUNT(stars) FROM t",
        "SELECT AVG(CASE stars WHEN 1 THEN 1 WHEN 2 THEN 2 WHEN 3 THEN 3 END) FROM t",
    ],
    "distinct": [
        "SELECT COUNT(*) FROM t WHERE coupon IS DISTINCT FROM TRUE",
        "SELECT COUNT(*) FROM t WHERE coupon IS NOT TRUE",
        "SELECT COUNT(*) FROM t WHERE coupon = 0 OR coupon IS NULL",
        "SELECT COUNT(*) FROM t WHERE NOT coupon IS NOT DISTINCT FROM TRUE",
        "SELECT COUNT(*) FROM t WHERE ISNULL(coupon, FALSE) = FALSE",
    ],
    "differences": [
        "SELECT AVG(sent - seen::date) FROM t",
        "SELECT AVG(DATE_DIFF('day', seen, sent)) FROM t",
        "SELECT AVG(sent - DATE(seen)) FROM t",
        "SELECT -1 * AVG(DATE_TRUNC('day', seen) - sent) AS x FROM t",
    ],
    "ages": [
        "SELECT COUNT(*) FROM t WHERE born <= DATE '1976-11-18'",
        "SELECT COUNT(*) FROM t WHERE EXTRACT(YEAR FROM AGE(born)) >= 50",
        "SELECT COUNT(*) FROM t WHERE AGE(CURRENT_DATE, born) >= INTERVAL '50 years'",
        "SELECT COUNT(*) FROM t WHERE NOT AGE(born) < INTERVAL '50' YEAR",
        "SELECT COUNT(*) FROM t WHERE date_part('year', age('2026-11-18', born)) > 49",
    ],
    "evenings before 1970": [
        "SELECT COUNT(*) FROM t WHERE landed::time >= '22:00'",
        "SELECT COUNT(*) FROM t WHERE MOD(EXTRACT(epoch FROM landed) + 864000000, 86400) >= 22 * 3600",
    ],
    "none of some patterns": [
        "SELECT COUNT(*) FROM t WHERE kind NOT LIKE 'b%' AND kind NOT LIKE '5%'",
        "SELECT COUNT(*) FROM t WHERE kind NOT LIKE ALL(ARRAY['b%', '5%'])",
        "SELECT COUNT(*) FROM t WHERE NOT kind LIKE ANY(ARRAY['b%', '5%'])",
        "SELECT COUNT(*) FROM t WHERE kind NOT LIKE ANY(ARRAY['%o%', '%b%']) AND kind NOT ILIKE ANY(ARRAY['5%'])",
    ],
    "whole matches": [
        "SELECT COUNT(*) FROM t WHERE kind LIKE 'gar%'",
        "SELECT COUNT(*) FROM t WHERE REGEXP_FULL_MATCH(kind, 'GAR.*', 'i')",
    ],
    "scalars": [
        "SELECT COUNT_IF(sex = 'f') / COUNT_IF(pay > 9) FROM t",
        "SELECT COUNT(*) / (SELECT COUNT(*) FROM t WHERE pay >= 10) FROM t WHERE sex = 'f'",
        "SELECT CASE WHEN COUNT_IF(pay > 9) = 0 THEN NULL ELSE COUNT_IF(sex = 'f') / COUNT_IF(pay > 9) END FROM t",
        "SELECT CASE WHEN COUNT_IF(pay > 9) <> 0 THEN COUNT_IF(sex = 'f') / COUNT_IF(pay > 9) END FROM t",
    ],
    "totals": [
        "SELECT kind, sex, COUNT(*) FROM t GROUP BY ROLLUP (kind, sex)",
        "SELECT kind, sex, COUNT(*) FROM t GROUP BY kind, sex WITH ROLLUP",
        "SELECT COALESCE(kind, 'all') AS k, sex, COUNT(*) FROM t GROUP BY CUBE (kind, sex)",
        "SELECT CASE WHEN GROUPING(kind) = 1 THEN 'all' ELSE kind END, COUNT(*) FROM t GROUP BY ROLLUP (kind, sex)",
        "SELECT kind, sex, RANK() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC) FROM t GROUP BY kind, sex",
        "SELECT sex, SUM(COUNT(*)) OVER (ORDER BY kind ROWS 1 PRECEDING) AS s FROM t GROUP BY sex, kind",
    ],
    "remainders": [
        "SELECT COUNT(*) FROM t WHERE pay % 1000 = 0",
        "SELECT COUNT(*) FROM t WHERE MOD(pay, 1000) < 1",
        "SELECT SUM(CASE WHEN NOT pay % 1000 <> 0 THEN 1 ELSE 0 END) FROM t",
    ],
}
"""Each list is one question, or the same questions behind it."""
DIFFERENT = [
    ("SELECT COUNT(*) FROM t WHERE coupon IS DISTINCT FROM TRUE", "SELECT COUNT(*) FROM t WHERE NOT coupon"),
    ("SELECT TO_CHAR(seen, 'YYYY-MM'), COUNT(*) FROM t GROUP BY 1",
     "SELECT TO_CHAR(seen, 'MM'), COUNT(*) FROM t GROUP BY 1"),
    ("SELECT AVG(sent - seen::date) FROM t", "SELECT AVG(EXTRACT(epoch FROM sent - seen) / 86400) FROM t"),
    ("SELECT COUNT(*) FROM t WHERE sent - seen::date > 5", "SELECT COUNT(*) FROM t WHERE sent - seen::date >= 5"),
    ("SELECT COUNT(*) FROM t WHERE EXTRACT(YEAR FROM AGE(born)) >= 50",
     "SELECT COUNT(*) FROM t WHERE 2026 - YEAR(born) >= 50"),
    ("SELECT COUNT(*) FROM t WHERE pay % 1000 = 0", "SELECT COUNT(*) FROM t WHERE pay % 100 = 0"),
    ("SELECT COUNT(*) FROM t WHERE pay % 1000 = 0", "SELECT COUNT(*) FROM t WHERE (pay + 1) % 1000 = 0"),
    ("SELECT COUNT(*) FROM t WHERE LEFT(kind, 1) = 'b'", "SELECT COUNT(*) FROM t WHERE LEFT(kind, 1) = 'g'"),
    ("SELECT REGR_COUNT(pay, items) FROM t", "SELECT REGR_COUNT(pay, stars) FROM t"),
    ("SELECT REGR_AVGX(pay, items) FROM t", "SELECT REGR_AVGY(pay, items) FROM t"),
    ("SELECT time_bucket('7 days', seen), COUNT(*) FROM t GROUP BY 1",
     "SELECT time_bucket('8 days', seen), COUNT(*) FROM t GROUP BY 1"),
]  # fmt: skip
REFUSED = [
    ("SELECT TIMESTAMPDIFF(YEAR, born, seen), COUNT(*) FROM t GROUP BY 1", "different databases"),
    ("SELECT COUNT(*) FROM t WHERE seen AT TIME ZONE 'UTC' > '2026-01-01'", "leave it out"),
    ("SELECT AGE(DATE '2026-01-01', born) > INTERVAL '1 month', COUNT(*) FROM t GROUP BY 1", "AGE"),
    ("SELECT EXTRACT(month FROM AGE(DATE '2026-01-01', born)), COUNT(*) FROM t GROUP BY 1", "from AGE"),
    ("SELECT EXTRACT(year FROM AGE(sent, born)), COUNT(*) FROM t GROUP BY 1", "written out"),
    ("SELECT COUNT(*) FROM hr.t", "no table hr.t"), ("SELECT LEFT(pay, 1), COUNT(*) FROM t GROUP BY 1", "steps"),
    ("SELECT UPPER(born), COUNT(*) FROM t GROUP BY 1", "needs a text"),
    ("SELECT (pay / 7) || 'x', COUNT(*) FROM t WHERE pay < 9 GROUP BY 1", "fraction"),
    ("SELECT COUNT(*) FROM t WHERE UPPER(kind) = 'Books'", "no declared key"),
    ("SELECT TO_CHAR(born, 'YYYY-MM-DD'), COUNT(*) FROM t GROUP BY 1", "steps|cases"),
    ("SELECT STRFTIME(seen, '%x'), COUNT(*) FROM t GROUP BY 1", "codes of"),
    ("SELECT TO_CHAR(seen, 'YYYY-MM-DD'), COUNT(*) FROM t GROUP BY 1", "this many values"),
    ("SELECT COUNT(*) FROM t WHERE TO_CHAR(seen, 'YYYY-MM-DD') = '2026-11-18'", "this many values"),
    ("SELECT pay || '.', COUNT(*) FROM t WHERE pay < 400 GROUP BY 1", "this many values|cases"),
    ("SELECT time_bucket('5 hours', seen), COUNT(*) FROM t GROUP BY 1", "divides a day"),
    ("SELECT date_bin('2 days', seen, DATE '2000-01-01'), COUNT(*) FROM t GROUP BY 1", "midnight"),
    ("SELECT sex, COUNT(*) / (SELECT COUNT(*) FROM t) FROM t GROUP BY sex", "beside groups"),
    ("SELECT COUNT(*) / (SELECT COUNT(*) FROM u) FROM t", "subquery"),
    ("SELECT COUNT(*) - (SELECT COUNT(*) FROM t x WHERE x.sex = t.sex) FROM t", "subquery"),
    ("WITH t AS (SELECT * FROM t WHERE pay > 9) SELECT COUNT(*), (SELECT COUNT(*) FROM t) FROM t", "over WITH"),
    ("WITH t AS (SELECT * FROM t WHERE pay > 9) SELECT (SELECT COUNT(*) FROM t)", "over WITH"),
    ("SELECT SUM(pay) - (SELECT SUM(pay) FROM t) FROM (SELECT pay + 1 AS pay FROM t) AS u", "over WITH"),
    ("SELECT COUNT(*) / (SELECT COUNT(*) FROM t TABLESAMPLE 10%) FROM t", "subquery"),
    ("SELECT COUNT(*) / (SELECT COUNT(*) FROM hr.t) FROM t", "subquery"),
    ("SELECT COUNT(*) FROM t WHERE INSTR(kind, 'o', 3) > 3", "this many arguments"),
    ("SELECT COUNT(*) FROM t WHERE LENGTH(kind, 'UTF8') > 3", "this many arguments"),
    ("SELECT sex, SUM(COUNT(*)) OVER (ORDER BY COUNT(*)) FROM t GROUP BY sex", "OVER"),
    ("SELECT sex, SUM(AVG(pay)) OVER () FROM t GROUP BY sex", "OVER"),
    ("SELECT SUM(pay) OVER (ORDER BY born) FROM t", "OVER"),
    ("SELECT sex, LAG(COUNT(*), 1, 0) OVER (ORDER BY sex) FROM t GROUP BY sex", "LAG"),
    ("SELECT sex, COUNT(*) || ' rows' FROM t GROUP BY sex", "text made of results"),
]  # fmt: skip


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    path = tmp_path_factory.mktemp("policy") / "t.toml"
    path.write_text(POLICY, encoding="utf-8")
    return read_policy(path)


def digests(sql: str, policy: Policy) -> list[str]:
    """Returns the digests of the queries behind a SELECT."""
    aggregates = parse_select_list(write_moment(sql, NOW), policy).aggregates
    return sorted({question.query.digest.hex() for each in aggregates for question in each.questions})


@pytest.mark.parametrize("name", SAME)
def test_spellings_of_one_question_have_one_digest(name: str, policy: Policy) -> None:
    first, *others = SAME[name]
    for other in others:
        assert digests(other, policy) == digests(first, policy), other


def test_different_questions_have_different_digests(policy: Policy) -> None:
    for one, other in DIFFERENT:
        assert digests(one, policy) != digests(other, policy), one
    firsts = [tuple(digests(questions[0], policy)) for questions in SAME.values()]
    assert len(set(firsts)) == len(firsts)


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_what_is_refused_says_why_and_names_what_is_answered(sql: str, message: str, policy: Policy) -> None:
    with pytest.raises(Misuse, match=message) as refused:
        digests(sql, policy)
    assert refused.value.nearest is not None
    assert digests(refused.value.nearest, policy)


@pytest.mark.parametrize("clause", ["HAVING COUNT(*) > 5", "ORDER BY COUNT(*)"])
def test_where_is_about_all_aggregates_beside_a_subquery(clause: str, policy: Policy) -> None:
    sql = "SELECT COUNT(*) / (SELECT COUNT(*) FROM t WHERE pay > 9) FROM t WHERE sex = 'f'"
    assert digests(f"{sql} {clause}", policy) == digests(sql, policy)


def test_age_takes_the_present(policy: Policy) -> None:
    written = write_moment("SELECT COUNT(*) FROM t WHERE EXTRACT(year FROM AGE(born)) > 'AGE(x)'", NOW)
    assert written == "SELECT COUNT(*) FROM t WHERE EXTRACT(year FROM AGE(DATE '2026-11-18', born)) > 'AGE(x)'"
    assert write_moment("SELECT AGE(a, b), age FROM t", NOW) == "SELECT AGE(a, b), age FROM t"


def test_a_schema_is_no_table() -> None:
    assert list_tables("SELECT COUNT(*) FROM public.t") == ("t",)
    assert list_tables("SELECT COUNT(*) FROM hr.t, x") == ("hr",)
