"""Questions whose identity is pinned: each line of a group is another spelling of one question."""

from __future__ import annotations

WISH = {"epsilon": "0.02", "delta": "1e-6"}
"""Of every question of the corpus."""

CORPUS: tuple[tuple[str, ...], ...] = (
    (
        "SELECT COUNT(*) FROM people WHERE age > 60",
        "select count(*) from PEOPLE where not age <= 60",
        "SELECT COUNT(1) FROM people p WHERE p.age > 60",
        'SELECT COUNT(*) AS n FROM "people" WHERE 60 < "age";',
        "FROM people SELECT COUNT(*) WHERE age >= 61",
        "SELECT COUNT_IF(age > 60) FROM people",
        "SELECT COUNT(*) FILTER (WHERE age > 60) FROM people -- of age",
    ),
    (
        "SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 29",
        "SELECT COUNT(*) FROM people WHERE age >= 20 AND age <= 29",
        "SELECT COUNT(*) FROM people WHERE NOT (age < 20 OR age > 29)",
        "SELECT COUNT(*) FROM people WHERE age > 19 AND 30 > age",
    ),
    (
        "SELECT COUNT(*) FROM people WHERE town = 'north' OR smoker",
        "SELECT COUNT(*) FROM people WHERE smoker OR town IN ('north')",
        "SELECT COUNT(*) FROM people WHERE NOT (NOT smoker AND town <> 'north')",
        "SELECT COUNT(*) FROM people WHERE smoker = TRUE OR town = 'north' OR town = 'north'",
    ),
    ("SELECT COUNT(*) FROM people WHERE town = 'south'",),
    ("SELECT COUNT(children) FROM people", "SELECT COUNT(*) FROM people WHERE children IS NOT NULL"),
    ("SELECT COUNT(*) FROM people WHERE children IS NULL",),
    ("SELECT COUNT(*) FROM people WHERE children <> 2", "SELECT COUNT_IF(NOT children = 2) FROM people"),
    ("SELECT COUNT_IF(smoker AND age < 30) FROM people", "SELECT COUNT(*) FROM people WHERE age < 30 AND smoker"),
    ("SELECT COUNT(*) FROM people WHERE NOT (smoker OR children IS NULL)",),
    ("SELECT COUNT(*) FROM people WHERE 60 <= age AND smoker = FALSE",),
    ("SELECT COUNT(*) FROM people WHERE height < 1.75", "SELECT COUNT(*) FROM people WHERE height < 1.750"),
    ("SELECT COUNT(*) FROM people WHERE height >= 1.5 AND age IN (20, 30, 40)",),
    ("SELECT COUNT(*) FROM people WHERE (age > 30 AND smoker) OR (age < 20 AND NOT smoker)",),
    ("SELECT SUM(income) FROM people", "select sum( INCOME ) from people where true"),
    (
        "SELECT SUM(income) FROM people WHERE town = 'north'",
        "SELECT SUM(income) FILTER (WHERE town = 'north') FROM people",
    ),
    ("SELECT SUM(height) FROM people",),
    ("SELECT SUM(children) FROM people WHERE smoker",),
    ("SELECT SUM(age * age) FROM people",),
    ("SELECT 1000 * COUNT_IF(age > 30) + 2000 * COUNT_IF(smoker) - 50000 FROM people",),
    ("SELECT (SUM(income) - 3 * SUM(age)) / 100 FROM people",),
    ("SELECT COUNT(*) FILTER (WHERE smoker) FROM people WHERE age >= 18",),
    ("SELECT AVG(income) FROM people",),
    ("SELECT AVG(smoker) FROM people",),
    ("SELECT AVG(income) FROM people WHERE smoker",),
    ("SELECT AVG(children) AS average, COUNT(children) AS n FROM people WHERE age > 20",),
    ("SELECT VARIANCE(age) FROM people", "SELECT VAR_POP(age) FROM people"),
    ("SELECT STDDEV(income) FROM people WHERE smoker",),
    ("SELECT MEDIAN(age) FROM people", "SELECT QUANTILE(age, 0.5) FROM people"),
    ("SELECT QUANTILE(age, 0.9) FROM people WHERE NOT smoker",),
    ("SELECT MIN(age), MAX(age) FROM people",),
    ("SELECT MODE(town) FROM people",),
    ("SELECT town, COUNT(*) FROM people GROUP BY town", "SELECT COUNT(*) AS n, town FROM people GROUP BY TOWN"),
    ("SELECT COUNT(*) FROM people WHERE age > 30 GROUP BY smoker, town",),
    ("SELECT age, SUM(income) FROM people GROUP BY age",),
    ("SELECT town, AVG(income) FROM people GROUP BY town",),
)
