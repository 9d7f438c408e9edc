"""Seven hundred statements, each with what was recorded of it: which questions it asks, what one person can change, and
what they come to on a small table; or why it is refused.

The questions are in the form of digests, which are what ledgers hold: a statement that means something else, or is
another question than before, is seen here. Recorded anew with NOISEBANK_SNAPSHOTS=write; the file takes ten seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from itertools import product
from pathlib import Path

import pytest

from noisebank.core.errors import Misuse, NoisebankError
from noisebank.engines.registry import make_engine, read_header
from noisebank.policy.file import parse_policy
from noisebank.queries.groups import group_labels
from noisebank.queries.selects import SelectList, parse_select_list
from noisebank.queries.sensitivity import contribution_range, l2_sensitivity
from snapshots.comparing import hold_text
from support.paths import ROOT

HOME = Path(__file__).parent
PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text()
(RULES,) = re.findall(r"```toml policy\n(.*?)```", PAGE, re.DOTALL)
ROWS, MOST_TEXT = 60, 200

NUMBERS = """\
age; -age; 2 * age + 1; age / 12; age * income; age * age - 30 * age; POWER(age, 2); ABS(age - 40)
SIGN(income - 50); GREATEST(age, children); GREATEST(age, 30, NULL); LEAST(income, 500, 10 * age)
CLAMP(income, 0, 500); FLOOR(age / 7); CEIL(age / 7); ROUND(age, -1); ROUND(age / 7, 1); TRUNC(age / 7); age // 10
MOD(age, 10); age % 7; COALESCE(children, 0); COALESCE(children, age); NULLIF(age, 20); NULLIF(children, 0)
CASE WHEN smoker THEN age ELSE -1 END; IF(smoker, age, 0); CASE town WHEN 'north' THEN 1 WHEN 'south' THEN 2 END
CASE WHEN age < 30 THEN income WHEN age < 60 THEN 2 * income END; smoker::int; CAST(age AS double)
width_bucket(age, 0, 100, 10); EXTRACT(year FROM joined); MONTH(joined); DATE '2026-01-01' - joined
DATE_DIFF('month', joined, DATE '2026-12-31'); EXTRACT(hour FROM seen); LENGTH(town); DATE_DIFF('day', joined, seen)
EXTRACT(year FROM AGE(DATE '2026-11-18', joined)); EXTRACT(isodow FROM joined); age + income + children
age - 2 * children + 7; (age + 1) * (age - 1); 5; 1 / 3; age / 0; income / age; SQRT(age); age ^ 3
"""
TEXTS = """\
town; UPPER(town); LEFT(town, 2); RIGHT(town, 3); SUBSTRING(town, 2, 3); SUBSTRING(town, 0, 2); SUBSTRING(town, 3)
CONCAT(town, '-', 'x'); town || 'ern'; TRIM(town); LOWER(UPPER(town)); COALESCE(town, 'none')
TO_CHAR(joined, 'YYYY-MM'); CASE WHEN age < 18 THEN 'child' WHEN smoker THEN 'smoker' ELSE 'other' END
REPLACE(town, 'n', 'm'); NULLIF(town, 'north'); CASE WHEN smoker THEN town ELSE 'x' END; INITCAP(town)
TO_CHAR(seen, 'HH24'); REVERSE(town); LEFT(town, -1); age::text
"""
DATES = """\
joined; seen; DATE_TRUNC('month', joined); DATE_TRUNC('week', seen); seen::date; joined + 7
joined - INTERVAL '1 day'; DATE_TRUNC('quarter', joined); seen + INTERVAL '90 minutes'; DATE_TRUNC('year', joined)
joined + INTERVAL '1 month'; LEAST(joined, DATE '2022-02-02'); COALESCE(seen, TIMESTAMP '2026-05-05 05:05:05')
DATE_TRUNC('minute', seen); DATE_BIN(INTERVAL '6 hours', seen, TIMESTAMP '2026-01-01 03:00'); MAKE_DATE(2026, 1, 1)
"""
NUMBER_USES = """\
SUM({}); COUNT_IF({} >= 10); COUNT_IF({} IN (1, 3)); AVG({}) FILTER (WHERE {} <> 2)
"""
TEXT_USES = (
    "COUNT_IF({} LIKE 'n%'); COUNT_IF({} IN ('no', 'child', '2021-03')); COUNT_IF({} < 'o' OR {} IS NULL); SUM({})"
)
DATE_USES = """\
COUNT_IF({} >= DATE '2026-02-28'); COUNT_IF({} = '2026-03-01'); COUNT_IF(YEAR({}) = 2026 AND MONTH({}) <= 6)
AVG(DATE '2026-12-31' - {})
"""
RESULTS = """\
COUNT(*); SUM(income); AVG(income); COUNT(*) + 1; 2 * COUNT(*) - SUM(age); COUNT(*) / 2; COUNT(*) / COUNT(children)
SUM(income) / NULLIF(COUNT(*), 0); ROUND(AVG(income), 1); ROUND(AVG(income), -2); FLOOR(AVG(age))
CEIL(COUNT(*) / 7); ABS(SUM(income)); SQRT(COUNT(*)); LN(COUNT(*)); EXP(1); POWER(COUNT(*), 2); POWER(COUNT(*), 9)
COUNT(*) ^ 2; GREATEST(COUNT(*), 0); LEAST(AVG(age), 100, 3 * 4); COALESCE(AVG(income), 0, 5); NULLIF(COUNT(*), 0)
CAST(AVG(age) AS int); CASE WHEN COUNT(*) > 5 THEN AVG(age) END
CASE WHEN COUNT(*) = 0 THEN NULL ELSE SUM(income) / COUNT(*) END; CASE WHEN SUM(age) > 5 THEN 1 ELSE 2 END
IF(COUNT(*) > 0, AVG(age), 0); -COUNT(*); 3 - 2 * COUNT(*); 1 + 2 * 3 - 4 / 2; COUNT(*) OVER ()
SUM(COUNT(*)) OVER (); LAG(COUNT(*)) OVER (ORDER BY town); RANK() OVER (ORDER BY COUNT(*) DESC)
AVG(SUM(income)) OVER (ORDER BY town ROWS 2 PRECEDING); FIRST_VALUE(COUNT(*)) OVER (ORDER BY town)
NTILE(2) OVER (ORDER BY town); SUM(COUNT(*)) OVER (ORDER BY town ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)
LEAD(COUNT(*), 2, 0) OVER (ORDER BY town)
SUM(COUNT(*)) OVER (ORDER BY town RANGE BETWEEN 1 PRECEDING AND CURRENT ROW); ROW_NUMBER() OVER (ORDER BY town)
SUM(COUNT(*)) OVER (ORDER BY town ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING); MAX(COUNT(*)) OVER ()
SUM(COUNT(*)) OVER (PARTITION BY town ORDER BY age); PERCENT_RANK() OVER (ORDER BY COUNT(*)); COUNT(*) % 2
COUNT(*) || 'x'; MEDIAN(age); QUANTILE(age, 0.1); QUANTILE(age, 2)
PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age DESC); MIN(age); MAX(income)
PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age); MODE(town); MODE() WITHIN GROUP (ORDER BY town); CORR(age, income)
REGR_SLOPE(income, age); REGR_R2(age, age); COVAR_SAMP(age, children); VAR_POP(age * 2); COUNT(DISTINCT age)
ANY_VALUE(age); (SELECT COUNT(*) FROM people WHERE smoker); (SELECT AVG(age) FROM people) - AVG(age)
(SELECT COUNT(*) FROM others)
"""
CLAUSES = (
    "SELECT COUNT(*) FROM people WHERE {}",
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town HAVING {}",
    "SELECT town, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY town ORDER BY {}",
    "SELECT town, COUNT(*) FROM people GROUP BY {}",
)
CONDITIONS = (
    """\
smoker; NOT smoker; smoker = 1; smoker IS TRUE; smoker IS NOT FALSE; smoker = (age > 30); age; 1; TRUE; NULL
age = NULL; age > 30 AND NOT (smoker OR town = 'north'); age > 30 OR NULL; age <> 30 AND age <> 31; age = 20.5
age > 20.5; age >= -5; age > 1000; age < 0; 30 < age; 2 * age > 61; age > income; age + income > 500
income > 1000 * age; age IN (20, NULL); age NOT IN (20, 30); NOT age IN (20); town IN ('north', 'east')
town = 'east'; children IS NULL; children IS DISTINCT FROM 2; children = 2 IS NULL; (children > 1) IS NOT TRUE
COALESCE(children > 1, smoker); town > 'm'; town LIKE '%o%' ESCAPE '!'; town SIMILAR TO 'n%'
age = ANY(ARRAY[20, 30]); age BETWEEN 30 AND 20; age BETWEEN SYMMETRIC 30 AND 20; EXISTS (SELECT 1)
joined > '2022-02-30'; joined = CURRENT_DATE; seen > NOW() - INTERVAL '1 day'; age > '30'; smoker = 'yes'; age > ?
x.age > 3; age * age >= 100; age * age - 40 * age <= -300; age * age = 400; 3 - age * age > 0; age * income > 2000
ABS(age - 30) < 5
""",
    """\
n > 5; COUNT(*) > 5 AND town <> 'south'; AVG(age) > 30; town = 'north'; town LIKE 'n%'; age > 3; n BETWEEN 1 AND 9
NOT n > 5; n IN (1, 2); n > AVG(age); n / 2 > 3; SUM(income) IS NULL; n = NULL; TRUE
n > (SELECT COUNT(*) FROM people) / 4
""",
    """\
1; 2 DESC; n; n DESC NULLS LAST LIMIT 1; town DESC; a / n; AVG(age) LIMIT 1 OFFSET 1; 4; age; n LIMIT 0; n LIMIT -1
n LIMIT n; RANDOM(); town COLLATE x; n + 0 * a; (SELECT 1); n OFFSET 5; 1, 2; n FETCH FIRST 2 ROWS ONLY
n FETCH FIRST 2 ROWS WITH TIES
""",
    """\
town; 1; 2; ALL; town, smoker; CUBE (town, smoker); ROLLUP (town, smoker); GROUPING SETS ((town), ()); (town)
town, age; NULL; town, FLOOR(age / 20); town, town; income; COUNT(*); UPPER(town); joined
CASE WHEN town = 'north' THEN 'n' ELSE 's' END
""",
)
WHOLE = """\
SELECT AVG(x.age) FROM people AS x WHERE x.smoker
WITH a AS (SELECT age, income * 2 AS i FROM people WHERE smoker) SELECT SUM(i), AVG(age) FROM a WHERE i > 300
WITH a AS (SELECT * FROM people), b AS (SELECT age FROM a WHERE smoker) SELECT COUNT(*) FROM b
WITH a AS (SELECT town, COUNT(*) AS n FROM people GROUP BY town) SELECT town, n FROM a WHERE n > 3 ORDER BY 2 LIMIT 1
WITH a AS (SELECT town, COUNT(*) AS n FROM people GROUP BY town ORDER BY n) SELECT n * 2, town FROM a
WITH a AS (SELECT town, smoker, COUNT(*) AS n FROM people GROUP BY 1, 2) SELECT town, SUM(n) FROM a GROUP BY town
SELECT t.n + 1 FROM (SELECT COUNT(*) AS n FROM people) AS t
SELECT AVG(n) FROM (SELECT town, COUNT(*) AS n FROM people GROUP BY town) AS t
SELECT COUNT(*) FROM (SELECT DISTINCT town FROM people) AS t
SELECT COUNT(*) FROM (SELECT age AS town FROM people) AS t WHERE town > 30
SELECT COUNT(*) FROM (SELECT age FROM people LIMIT 5) AS t
SELECT COUNT(*) FROM people, people AS other
SELECT COUNT(*) FROM people JOIN people AS other ON TRUE
SELECT COUNT(*) FROM people TABLESAMPLE 10 PERCENT
SELECT COUNT(*) FROM nobody
SELECT COUNT(*) FROM main.people
SELECT COUNT(*) FROM secret.people
SELECT TOP 3 town, COUNT(*) FROM people GROUP BY town ORDER BY 2 DESC
SELECT TOP (3) town, COUNT(*) FROM people GROUP BY town
SELECT COUNT(*) AS town, town FROM people GROUP BY town
SELECT COUNT(*) a, COUNT(*) a FROM people
SELECT town FROM people GROUP BY town
SELECT DISTINCT COUNT(*) FROM people
SELECT COUNT(*) FROM people QUALIFY COUNT(*) > 3
SELECT COUNT(*) INTO t FROM people
SELECT COUNT(*); SELECT 1
SELECT
SELECT COUNT(* FROM people
UPDATE people SET age = 3
SELECT "Age" FROM people
SELECT COUNT(*) FROM people WHERE ((((((((((age > 3))))))))))
SELECT COUNT(*) FROM people WHERE - - - age < 3
smokers
""".splitlines()


def list_parts(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split("; ")]


def fill(uses: str, parts: str, keys: bool = True) -> Iterator[str]:
    """Every part in every use, and as a key of groups."""
    for part, use in product(list_parts(parts), list_parts(uses)):
        yield f"SELECT {use.replace('{}', part)} FROM people"
    for part in list_parts(parts) if keys else []:
        yield f"SELECT {part} AS k, COUNT(*) FROM people GROUP BY 1"


GROUPS: dict[str, Callable[[], Iterator[str]]] = {
    "numbers": lambda: fill(NUMBER_USES, NUMBERS),
    "texts": lambda: fill(TEXT_USES, TEXTS),
    "dates": lambda: fill(DATE_USES, DATES, keys=False),
    "results": lambda: (
        f"SELECT {keys}{part} FROM people{clause}"
        for part in list_parts(RESULTS)
        for keys, clause in (("", ""), ("town, ", " GROUP BY town"))
    ),
    "clauses": lambda: (
        form.format(part) for form, parts in zip(CLAUSES, CONDITIONS, strict=True) for part in list_parts(parts)
    ),
    "whole": lambda: iter(WHOLE),
}
"""The statements, by name of the file in which they are recorded."""


def write_table(folder: Path) -> None:
    lines = ["age,income,smoker,town,children,joined,seen"]
    for i in range(ROWS):
        joined = date(2020, 1, 1) + timedelta(days=61 * i)
        seen = f"{date(2026, 1, 1) + timedelta(days=6 * i)} {i % 24:02}:{7 * i % 60:02}:{i:02}" if i % 7 else ""
        town, children = ("north", "south", "east", " north")[i % 4], i % 4 if i % 6 else ""
        lines.append(
            f"{(7 * i) % 88},{97 * i % 1500 - 300},{'true' if i % 3 else 'false'},{town},{children},{joined},{seen}"
        )
    (folder / "people.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def describe(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What to record of a statement."""
    folder = tmp_path_factory.mktemp("recorded")
    write_table(folder)
    policy = parse_policy(RULES.replace("rows = 100", f"rows = {ROWS}"), folder)
    engine = make_engine(policy, read_header(policy.source), "secret'key")

    def describe_questions(select: SelectList) -> Iterator[str]:
        for aggregate in select.aggregates:
            for question in aggregate.questions:
                query = question.query
                low, high = contribution_range(query, policy)
                try:
                    values = engine.statistics(query)
                except NoisebankError as error:
                    values = (str(error),)  # type: ignore[assignment]
                shown = ",".join(map(str, values[:8])) + (f"..{sum(values)}" if len(values) > 8 else "")
                rows = group_labels(query, policy) if query.by else ()
                named = " ".join("/".join(row) for row in [*rows[:5], *rows[-1:]])
                price = f"s={float(l2_sensitivity(query, policy)):.6g} [{low},{high}]"
                yield f"{query.digest.hex()[:10]} *{question.unit} +{question.offset} {price} {named} = {shown}"

    def describe_statement(sql: str) -> str:
        try:
            select = parse_select_list(sql, policy)
        except Misuse as error:
            return f"{sql}\n  ! {str(error)[:MOST_TEXT]}\n    {error.nearest}"
        columns = ", ".join(f"{column.name}" for column in select.columns)
        rest = f" by {','.join(select.by)[:60]}" * bool(select.by) + f" limit {select.limit}" * (
            select.limit is not None
        )
        return "\n  ".join([sql, f"{columns}{rest}", *describe_questions(select)])

    return describe_statement


@pytest.mark.parametrize("name", GROUPS)
def test_statements_mean_what_they_meant(name: str, describe: Callable[[str], str]) -> None:
    hold_text(f"statements/{name}.txt", "\n".join(describe(sql) for sql in GROUPS[name]()))
