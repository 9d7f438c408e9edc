"""What cannot be answered is refused before anything is looked at, and says why or what to write instead.

Beside what is just too much stands what is just enough: each limit is where it is said to be.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noisebank.core.errors import BadQuery, Misuse, UnsupportedQuery
from noisebank.policy.file import parse_policy
from noisebank.queries.selects import parse_select_list

POLICY = parse_policy(
    """
name = "t"
source = "t.csv"
neighbours = "add-remove"
row_cap = 1000
[budget]
epsilon = 8
delta = 1e-6
[columns.x]
type = "integer"
bounds = [0, 100]
bins = [20, 40, 60, 80]
[columns.y]
type = "number"
step = 0.01
bounds = [-50, 50]
nullable = true
[columns.b]
type = "boolean"
[columns.k]
type = "text"
keys = ["I20", "I21", "J10"]
nullable = true
[columns.n]
type = "text"
keys = ["7", "12", "x"]
[columns.day]
type = "date"
bounds = ["2024-01-01", "2026-12-31"]
bins = "month"
[columns.moment]
type = "timestamp"
bounds = ["2026-01-01", "2026-12-31 23:59:59"]
""",
    Path(),
)


def parse(sql: str) -> None:
    """Says nothing if the question can be answered."""
    assert parse_select_list(f"SELECT {sql}", POLICY).columns


WRONG = [
    ("COUNT(NULL) FROM t", "is 0, whatever the table"),
    ("1e9999 * COUNT(*) FROM t", "1e9999 is no number of ordinary size"),
    ("SUM(1e9999) FROM t", "1e9999 is no number of ordinary size"),
    ("COUNT(*) FROM t WHERE x = 1e9999", "1e9999 is no number of ordinary size"),
    ("COUNT(*) / 0 FROM t", "divides by zero"),
    ("SUM(x / 0) FROM t", "divides by zero"),
    ("SUM(MOD(x, 0)) FROM t", "divides by zero"),
    ("COUNT(*) AS a, SUM(x) AS a FROM t", "two results have the same name"),
    ("k, COUNT(*) FROM t GROUP BY k HAVING k = 'Z99'", "'Z99' is no key of k; there are 'I20', 'I21', 'J10'"),
    ("COUNT(*) FROM t GROUP BY x, CASE WHEN b THEN NULL END", "has one group only"),
    ("QUANTILE(x, 1.5) FROM t", "from 0 to 1"),
    ("PERCENTILE_CONT(-0.5) WITHIN GROUP (ORDER BY x) FROM t", "from 0 to 1"),
    ("ROUND(COUNT(*), x) FROM t", "a whole number of digits"),
    ("COUNT(*) FROM t WHERE x", "column x is integer, not a condition: compare it"),
    ("COUNT(*) FROM t WHERE b = 'maybe'", "column b is boolean"),
    ("SUM(CASE WHEN b THEN x ELSE k END) FROM t", "a number and a text: all of its results must be of one type"),
    ("SUM(CAST(k AS INTEGER)) FROM t", "'I20' is no whole number"),
    ("COUNT(*) FROM t WHERE SPLIT_PART(k, '', 1) = 'A'", "write SPLIT_PART(text, '-', 1)"),
    ("COUNT(*) FROM t WHERE SPLIT_PART(k, '2', 0) = 'A'", "write SPLIT_PART(text, '-', 1)"),
    ("COUNT(*) FROM t WHERE SPLIT_PART(k, '2', 1.5) = 'A'", "write SPLIT_PART(text, '-', 1)"),
    ("COUNT(*) FROM t WHERE BTRIM(k, 'I', 'J') = '20'", "BTRIM takes a text, and the signs to take away"),
    ("COUNT(*) FROM t WHERE LEFT(k, x) = '20'", "takes whole numbers that are written out"),
    ("COUNT(*) FROM t WHERE SUBSTRING(k, 1.5) = '20'", "takes whole numbers that are written out"),
    ("COUNT(*) FROM t WHERE k ~ '(a'", "the pattern '(a' has no end"),
    ("COUNT(*) FROM t WHERE k > DATE '2026-01-01'", 'declare it as type = "date"'),
    ("COUNT(*) FROM t WHERE day + day > '2026-01-01'", "day + day joins a date and a date"),
    ("COUNT(*) FROM t WHERE INTERVAL '5 days' - day > '2026-01-01'", "joins an interval and a date"),
    ("COUNT(*) FROM t WHERE day * 2 > 5", "column day is date, not a number"),
    ("COUNT(*) FROM t WHERE EXTRACT(year FROM x) = 5", "needs a date, not a number"),
    ("COUNT(*) FROM t WHERE DATE_DIFF('year', x, day) > 1", "needs a date, not a number"),
    ("COUNT(*) FROM t WHERE DATE_TRUNC('month', x) = day", "needs a date, not a number"),
    ("COUNT(*) FROM t WHERE STRFTIME(x, '%Y') = '2026'", "needs a date, not a number"),
    ("COUNT(*) FROM t WHERE date_part(day, 'year') = 5", "needs a date, not a text"),
    ("COUNT(*) FROM t WHERE date_part('year') = 5", "date_part takes a part and a date"),
    ("COUNT(*) FROM t WHERE DATEPART(year) = 5", "DATEPART takes a part and a date"),
    ("COUNT(*) FROM t WHERE DATEADD(day, 5) > day", "DATEADD takes a unit, a number and a date"),
    ("COUNT(*) FROM t WHERE DATE_ADD(day, 7) > day", "write INTERVAL '7 days'"),
    ("COUNT(*) FROM t WHERE EXTRACT(hour FROM day) = 5", "no row can meet this condition"),
    ("COUNT(*) FROM t WHERE UPPER(x) = 'A'", "no row can meet this condition"),
    ("COUNT(*) FROM (SELECT x, b FROM t) AS s(u)", "as many column names as columns"),
]

UNSUPPORTED = [
    ("COUNT(*) FROM t GROUP BY b WITH TOTALS", "this form of GROUP BY"),
    ("COUNT(*) FROM t LIMIT 5 BY b", "LIMIT BY"),
    ("b, COUNT(*) FROM t GROUP BY b HAVING SUM(COUNT(*)) OVER () > 3", "OVER in HAVING"),
    ("NULL, COUNT(*) FROM t", "NULL as a result"),
    ("b, COUNT(*) FROM t GROUP BY b HAVING COUNT(*) = NULL", "NULL as a result"),
    ("b, COUNT(*) FROM t GROUP BY b HAVING COUNT(*) > NULL", "NULL as a result"),
    ("b, COUNT(*) FROM t GROUP BY b HAVING AVG(x) IS TRUE", "HAVING AVG(x) IS TRUE"),
    ("b, COUNT(*) FROM t GROUP BY b HAVING (COUNT(*) > 5) IS NOT TRUE", "HAVING (COUNT(*) > 5) IS TRUE"),
    ("b, COUNT(*) FROM t GROUP BY b HAVING COUNT(*) IS 5", "HAVING COUNT(*) IS 5"),
    ("b, COUNT(*) FROM t GROUP BY b HAVING b IS TRUE", "HAVING b IS TRUE"),
    ("'a', COUNT(*) FROM t", "the text 'a' as a result"),
    ("b + 1, COUNT(*) FROM t GROUP BY b", "arithmetic with the key b"),
    ("COUNT(*) % 2 FROM t", "COUNT(*) % 2"),
    ("CASE WHEN COUNT(*) > 5 THEN 'many' ELSE 3 END FROM t", "ask for COUNT(*)"),
    ("b, COUNT(*) FROM t GROUP BY b ORDER BY CASE WHEN b THEN 1 ELSE 'a' END", "HAVING b"),
    ("GROUPING(x), COUNT(*) FROM t GROUP BY ROLLUP (b)", "GROUPING takes keys of GROUP BY"),
    ("COALESCE(x, 'all'), COUNT(*) FROM t GROUP BY ROLLUP (x)", "a text for all of x, which is no text"),
    ("COALESCE(b, 'all'), COUNT(*) FROM t GROUP BY ROLLUP (b)", "a text for all of b, which is no text"),
    ("COALESCE(k, 5), COUNT(*) FROM t GROUP BY ROLLUP (k)", "arithmetic with the key k"),
    ("LENGTH(CAST(n AS INTEGER)) FROM t", "single values are never shown"),
    ("b, RANK() OVER (PARTITION BY x ORDER BY COUNT(*)) FROM t GROUP BY b", "PARTITION BY x"),
    ("b, SUM(COUNT(*)) OVER (PARTITION BY x) FROM t GROUP BY b", "PARTITION BY x"),
    ("b, RANK() OVER () FROM t GROUP BY b", "of window functions"),
    ("b, RANK() OVER (ORDER BY COUNT(*) ROWS UNBOUNDED PRECEDING) FROM t GROUP BY b", "of window functions"),
    ("b, SUM(COUNT(*)) OVER (ORDER BY b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t GROUP BY b", "frames are"),
    ("b, SUM(COUNT(*)) OVER (ORDER BY b ROWS BETWEEN x PRECEDING AND CURRENT ROW) FROM t GROUP BY b", "of window"),
    ("b, SUM(COUNT(*)) OVER (ORDER BY COUNT(*)) FROM t GROUP BY b", "order what is added up by keys"),
    ("b, LAG(COUNT(*), 1, 0) OVER (ORDER BY b) FROM t GROUP BY b", "has no default: use COALESCE"),
    ("b, LAG(COUNT(*), x) OVER (ORDER BY b) FROM t GROUP BY b", "has no default: use COALESCE"),
    ("b, NTILE(4) OVER (ORDER BY COUNT(*)) FROM t GROUP BY b", "OVER the table's rows"),
    ("b, SUM(x) OVER (ORDER BY b) FROM t GROUP BY b", "OVER the table's rows"),
    ("COUNT(*) FROM (SELECT x FROM t UNION SELECT y FROM t)", "UNION in a subquery"),
    ("COUNT(*) FROM (SELECT x FROM t JOIN t AS s ON s.x = t.x)", "JOINS around or in a subquery"),
    ("COUNT(*) FROM (SELECT x FROM t LIMIT 5)", "LIMIT around or in a subquery"),
    ("n FROM (SELECT b, COUNT(*) AS n FROM t GROUP BY b LIMIT 1) WHERE n > 5", "conditions on a subquery with LIMIT"),
    ("COUNT(*) FROM (SELECT * EXCLUDE (x) FROM t)", "* EXCLUDE, REPLACE or RENAME"),
    ("COUNT(*) FROM (SELECT * REPLACE (x + 1 AS x) FROM t)", "* EXCLUDE, REPLACE or RENAME"),
    ("COUNT(*) FROM (SELECT * RENAME (x AS z) FROM t)", "* EXCLUDE, REPLACE or RENAME"),
    ("COUNT(*) FROM t WHERE x IN (SELECT x FROM t)", "a subquery"),
    ("COUNT(*) FROM t WHERE k = n", "a comparison of two text columns"),
    ("COUNT(*) FROM t WHERE k <> n", "a comparison of two text columns"),
    ("COUNT(*) FROM t WHERE x + 1", "a condition compares"),
    ("COUNT(*) FROM t WHERE x IS TRUE", "TRUE and FALSE for a boolean column"),
    ("COUNT(*) FROM t WHERE x + 1 IS TRUE", "TRUE and FALSE for a condition"),
    ("COUNT(*) FROM t WHERE (x > 1) IS 5", "TRUE and FALSE for a condition"),
    ("COUNT(*) FROM t WHERE k BETWEEN SYMMETRIC 'a' AND 'b'", "an order of the text column k"),
    ("COUNT(*) FROM t WHERE k LIKE ANY(ARRAY[n])", "write the pattern in single quotes"),
    ("COUNT(*) FROM t WHERE k LIKE ANY(n)", "write the patterns: LIKE ANY("),
    ("COUNT(*) FROM t WHERE k LIKE 'a' ESCAPE 'xx'", "ESCAPE a single sign"),
    ("COUNT(*) FROM t WHERE k LIKE n ESCAPE '!'", "LIKE takes a pattern in single quotes"),
    ("COUNT(*) FROM t WHERE regexp_matches(k, n)", "write the pattern in single quotes"),
    ("COUNT(*) FROM t WHERE regexp_matches(k, 'i', 'g')", "of flags there is i"),
    ("COUNT(*) FROM t WHERE CAST(moment AS TIME) > x", "CAST(moment AS TIME)"),
    ("COUNT(*) FROM t WHERE SPLIT_PART(k, n, 1) = 'A'", "write its other arguments in single quotes"),
    ("COUNT(*) FROM t WHERE TRIM(BOTH n FROM k) = '20'", "write its other arguments in single quotes"),
    ("COUNT(*) FROM t WHERE REPLACE(k, n, '') = '20'", "write its other arguments in single quotes"),
    ("COUNT(*) FROM t WHERE STRFTIME(day, n) = '2026'", "write STRFTIME(day, '%Y-%m')"),
    ("COUNT(*) FROM t WHERE DATE_FORMAT(day, '%q') = '2026'", "this form of DATE_FORMAT"),
    ("COUNT(*) FROM t WHERE DATEADD(day, x, day) > '2026-01-01'", "a number that is not written out"),
    ("COUNT(*) FROM t WHERE DATEADD(day, 1.5, day) > '2026-01-01'", "a number that is not written out"),
    ("COUNT(*) FROM t WHERE LAST_DAY(day, 'year') = day", "LAST_DAY is that of the month"),
    ("COUNT(*) FROM t WHERE AGE(day, day, day) > INTERVAL '1 year'", "ask EXTRACT(year FROM AGE(last, first))"),
    ("COUNT(*) FROM t GROUP BY time_bucket(5, moment)", "write time_bucket(INTERVAL '1 hour', moment)"),
    ("COUNT(*) FROM t GROUP BY time_bucket(INTERVAL '7 minutes', moment)", "or divides a day"),
    ("COUNT(*) FROM t WHERE EXTRACT(hour FROM moment + x) = 5", "EXTRACT of hour from this"),
    ("COUNT(*) FROM t WHERE EXTRACT(dow FROM day + x) = 5", "EXTRACT of dow from this"),
    ("SUM(POWER(x, 0.5)) FROM t", "POWER takes 1, 2, 3 or 4"),
    ("POWER(COUNT(*), 1.5) FROM t", "POWER takes 0.5, or 1 to 4"),
    ("SUM(MOD(x, y)) FROM t", "MOD by a column"),
]

ANSWERED = [
    "AVG(x + y) FROM t", "-COUNT(*) FROM t", "SQRT(COUNT(*)) FROM t", "POWER(COUNT(*), 0.5) FROM t",
    "ROUND(COUNT(*), 1) FROM t", "ROUND(COUNT(*), -1) FROM t", "MODE(x) FROM t", "SUM(MOD(x, 7)) FROM t",
    "QUANTILE(x, 1) FROM t", "PERCENTILE_CONT(0) WITHIN GROUP (ORDER BY x) FROM t",
    "k, COUNT(*) FROM t GROUP BY k HAVING k = 'I20'", "GROUPING(b), COUNT(*) FROM t GROUP BY ROLLUP (b)",
    "COALESCE(k, 'all'), COUNT(*) FROM t GROUP BY ROLLUP (k)", "b, COUNT(*) FROM t GROUP BY b WITH ROLLUP",
    "b, COUNT(*) FROM t GROUP BY b HAVING AVG(x) IS NULL", "b, COUNT(*) FROM t GROUP BY b HAVING b IS NULL",
    "b, COUNT(*) FROM t GROUP BY b HAVING AVG(x) IS NOT NULL",
    "b, LAG(COUNT(*), 1) OVER (ORDER BY b) FROM t GROUP BY b",
    "b, FIRST_VALUE(COUNT(*)) OVER (ORDER BY b) FROM t GROUP BY b",
    "b, SUM(COUNT(*)) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t GROUP BY b",
    "b, COUNT(*) FROM t GROUP BY b ORDER BY CASE b WHEN TRUE THEN 1 ELSE 2 END",
    "COUNT(*) FROM (SELECT x, b FROM t) AS s(u, v) WHERE v", "COUNT(*) FROM t WHERE k = k",
    "COUNT(*) FROM t WHERE x BETWEEN SYMMETRIC 5 AND 1", "COUNT(*) FROM t WHERE moment::TIME > '22:00'",
    "COUNT(*) FROM t WHERE SPLIT_PART(k, '2', -1) = '0'", "COUNT(*) FROM t WHERE SPLIT_PART(k, '2', 1) = 'I'",
    "COUNT(*) FROM t WHERE BTRIM(k, 'I') = '20'", "COUNT(*) FROM t WHERE TRIM(LEADING 'I' FROM k) = '20'",
    "COUNT(*) FROM t WHERE STRFTIME(day, '%Y%%') = '2026%'", "COUNT(*) FROM t WHERE regexp_matches(k, 'i', 'i')",
    "COUNT(*) FROM t WHERE starts_with(k, 'I')", "COUNT(*) FROM t WHERE contains(k, '2')",
    "COUNT(*) FROM t WHERE DATE_ADD(day, INTERVAL '7 days') > '2026-01-01'",
    "COUNT(*) FROM t WHERE LAST_DAY(day) = day",
    "COUNT(*) FROM t WHERE DATEADD(day, -30, day) > '2026-01-01'", "COUNT(*) FROM t WHERE DATEPART(year, day) = 2026",
    "COUNT(*) FROM t WHERE 5 + day > '2026-01-01'", "COUNT(*) FROM t WHERE INTERVAL '5 days' + day > '2026-01-01'",
    "COUNT(*) FROM t WHERE EXTRACT(hour FROM day) = 0", "COUNT(*) FROM t WHERE EXTRACT(minute FROM day) = 0",
    "COUNT(*) FROM t WHERE EXTRACT(dow FROM DATE_TRUNC('month', day)) = 5",
    "COUNT(*) FROM t WHERE DATE_DIFF('year', day, moment) > 1",
    "COUNT(*) FROM t WHERE COALESCE(day, moment) > '2026-01-01'",
    "COUNT(*) FROM t GROUP BY time_bucket(INTERVAL '1 month', moment)",
]  # fmt: skip


@pytest.mark.parametrize(("sql", "words"), WRONG)
def test_what_makes_no_sense_is_said(sql: str, words: str) -> None:
    with pytest.raises(BadQuery, match=re.escape(words)):
        parse(sql)


@pytest.mark.parametrize(("sql", "words"), UNSUPPORTED)
def test_what_is_not_supported_is_said(sql: str, words: str) -> None:
    with pytest.raises(UnsupportedQuery, match=re.escape(words)):
        parse(sql)


@pytest.mark.parametrize("sql", ANSWERED)
def test_what_stands_beside_it_is_answered(sql: str) -> None:
    parse(sql)


def nested(count: int) -> str:
    return "COUNT(*) FROM " + "(SELECT * FROM " * count + "t" + ")" * count


def pairs(count: int) -> str:
    return f"COUNT(*) FROM t WHERE (x, y) IN ({', '.join(f'({place % 100}, {place})' for place in range(count))})"


def sets(count: int) -> str:
    return f"b, k, COUNT(*) FROM t GROUP BY {', '.join(['GROUPING SETS ((b), (k))'] * count)}"


LIMITS = [
    (nested(8), nested(9), "more than 8 subqueries in each other"),
    (pairs(200), pairs(201), "a list of 201 tuples"),
    (sets(6), sets(7), "more than 64 grouping sets"),
    ("SUM(x * x * x * x) FROM t", "SUM(x * x * x * x * x) FROM t", "multiply at most 4 columns"),
    ("SUM(POWER(x, 4)) FROM t", "SUM(POWER(x, 5)) FROM t", "POWER takes 1, 2, 3 or 4"),
    ("POWER(COUNT(*), 4) FROM t", "POWER(COUNT(*), 5) FROM t", "POWER takes 0.5, or 1 to 4"),
    ("ROUND(COUNT(*), 12) FROM t", "ROUND(COUNT(*), 13) FROM t", "from -12 to 12"),
    ("ROUND(COUNT(*), -12) FROM t", "ROUND(COUNT(*), -13) FROM t", "from -12 to 12"),
]


@pytest.mark.parametrize(("enough", "much", "words"), LIMITS, ids=[words for _, _, words in LIMITS])
def test_limits_are_where_they_are_said_to_be(enough: str, much: str, words: str) -> None:
    parse(enough)
    with pytest.raises(Misuse, match=re.escape(words)):
        parse(much)
