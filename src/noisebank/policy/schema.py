"""Every setting of a policy file with its form and meaning: what `file` and `columns` accept, and what the reference
of the docs is generated from."""

from __future__ import annotations

from typing import NamedTuple


class PolicySetting(NamedTuple):
    """One setting: its key, how it is written in TOML, and what it means."""

    key: str
    form: str
    text: str


TOP_SETTINGS = (
    PolicySetting("name", '"survey"', "The account's name, and the table in FROM."),
    PolicySetting(
        "source", '"survey.csv"',
        "Where the rows are: a CSV, Parquet or .duckdb file, relative to the policy; the address of a PostgreSQL "
        'server without a password; `"postgresql"` or `"spark"`.',
    ),
    PolicySetting("table", '"public.people"', "The table in a .duckdb file, in PostgreSQL or in Spark's catalogue."),
    PolicySetting("engine", '"duckdb" or "spark"', "What reads a file; DuckDB unless said otherwise."),
    PolicySetting(
        "column_names", '["age", "town"]',
        "Of a CSV file without a header: the names of its columns, in order. Its first line is then a row.",
    ),
    PolicySetting(
        "neighbours", '"replace-one" or "add-remove"',
        "What one person can change: their row becomes any other (the number of rows is public), or it is there or "
        "not.",
    ),
    PolicySetting("rows", "5000", 'The public number of rows. With replace-one and `unit = "row"` only.'),
    PolicySetting(
        "row_cap", "10000",
        "In all other cases: the most rows that the table may ever have. It is public; leave room.",
    ),
    PolicySetting("unit", '"row" or "patient"', "Every row is a person; or the column that tells people apart."),
    PolicySetting(
        "max_rows", "20",
        "With a unit column: how many rows of one person count. Which ones is decided by a keyed hash of the row.",
    ),
    PolicySetting(
        "raise_delay_hours", "24", "How long a raise of the budget stays public before it takes effect; 24 by default."
    ),
    PolicySetting("budget", "epsilon and delta", "What all answers together promise."),
    PolicySetting("columns", "one table per column", "The columns that may be asked about; see below."),
    PolicySetting("queries", "name = SQL", "Named queries, asked by name instead of SQL."),
    PolicySetting(
        "cubes", '[["town", "smoker"], ["age"]]',
        "Sets of columns with keys, bins or truth values. Their cells are counted once, at opening; questions about "
        "whole cells are then answered without a scan and inferred from each other.",
    ),
    PolicySetting(
        "expect", '["marginals", "SELECT ..."]',
        "What will probably be asked, so that a look at a cube is chosen for it: any of `values` (single "
        "values, and groups), `marginals` (groups, and subsets of keys), `ranges` and `prefixes` (of numbers with "
        "bins), examples as SQL, names of queries.",
    ),
    PolicySetting(
        "hide_questions", "true or false",
        "Whether the public page leaves out what was asked; false by default. Named queries are public all the same.",
    ),
)  # fmt: skip

COLUMN_SETTINGS = (
    PolicySetting("type", '"integer", "number", "text", "boolean", "date" or "timestamp"', "How its values are read."),
    PolicySetting(
        "bounds", '[0, 120] or ["2024-01-01", "2026-12-31"]',
        "Of a number, date or timestamp: the smallest and the largest value. Values beyond are clipped, in sums and in "
        "conditions.",
    ),
    PolicySetting(
        "step", "0.5",
        "The resolution of a number, 1 by default: values are rounded to it. Of a timestamp: seconds; values are cut.",
    ),
    PolicySetting(
        "keys", '["north", "south"] or [1, 2]',
        "The values of a text column, or the codes in an integer column, that may be asked about; any other value is "
        "none of them. Codes are compared and grouped by, never added up.",
    ),
    PolicySetting(
        "complete", "true or false",
        "Whether the keys are all that there is; false by default. A row with another value then counts nowhere, and "
        'cubes need no cell for "none of them".',
    ),
    PolicySetting(
        "zone", '"Europe/Zurich"',
        "Of a timestamp: the time zone whose clock it shows, UTC by default. Texts without an offset are readings of "
        "that clock.",
    ),
    PolicySetting(
        "bins", '[20, 40, 60] or "month"',
        "Rising edges inside the bounds, for GROUP BY, quantiles and cubes; of dates also year, quarter, month, week "
        "or day.",
    ),
    PolicySetting("nullable", "true or false", "Whether values may be missing; false by default."),
)  # fmt: skip

TOP_KEYS = tuple(setting.key for setting in TOP_SETTINGS)
COLUMN_KEYS = tuple(setting.key for setting in COLUMN_SETTINGS)
