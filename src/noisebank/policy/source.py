"""Reads where the table of a policy file is: `source`, `table`, `engine`, `column_names`. Never quotes passwords."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from noisebank.policy.model import Keeper, Source, Table

ADDRESS = re.compile(r"postgres\w*(\+\w+)?:", re.IGNORECASE)
SPELLED_OUT = re.compile(r"(^|\s)(host|hostaddr|port|user|password|passfile|dbname|service)\s*=", re.IGNORECASE)
"""The other way to write where a server is, which is refused: in an address, secrets are easier to see."""
PARAMETERS = frozenset({"host", "port", "sslmode", "sslrootcert", "channel_binding", "target_session_attrs"})
"""Allowed in an address: where the server is and how it proves itself. No password, no settings of the session."""
NAME_PART = re.compile(r'"((?:[^"]|"")+)"(?:\.|$)|([^".]+)(?:\.|$)')
EXAMPLE = 'write source = "postgresql://reader@db.example/survey" and table = "people"'
Wrong = Callable[[str, str, str], None]
"""Notes a mistake: the setting, what is wrong with it, and what would be right."""


class SourceReader:
    """Reads the settings of one policy that say where its table is."""

    def __init__(self, tree: Mapping[str, Any], folder: Path, wrong: Wrong) -> None:
        self._tree, self._folder, self._wrong = tree, folder, wrong

    def source(self) -> Source | None:
        """Returns a file, or a table in a DuckDB file, in PostgreSQL or in Spark; None if there is a mistake."""
        location = self._found()
        names = self._column_names()
        if not names or location is None:
            return location
        path = location.path if isinstance(location, Table) else location
        engine = location.keeper if isinstance(location, Table) else Keeper.DUCKDB
        if path is None or path.suffix.lower() in (".parquet", ".duckdb"):
            self._wrong("column_names", "does not go with a table that has names of its own", "leave it out")
        return Table(engine, path=path, column_names=names)

    def _found(self) -> Source | None:
        text = self._text("source", 'write source = "table.csv"')
        engine = self._engine()
        if not text:
            return None
        if ADDRESS.match(text) or SPELLED_OUT.search(text):
            address = self._address(text)
            return None if address is None else self._served(Keeper.POSTGRESQL, engine, address)
        if text in (Keeper.POSTGRESQL.value, Keeper.SPARK.value):
            return self._served(Keeper(text), engine, "")
        path = (self._folder / text).resolve()
        if engine is Keeper.POSTGRESQL:
            self._wrong("source", "is a file, which PostgreSQL does not read", EXAMPLE)
            return None
        if engine is not Keeper.SPARK and path.suffix.lower() == ".duckdb":
            return Table(Keeper.DUCKDB, self._table("in this database", 2), path)
        if "table" in self._tree:
            self._wrong("table", "does not go with a file that is one table", "leave it out, or name a .duckdb file")
        return Table(Keeper.SPARK, path=path) if engine is Keeper.SPARK else path

    def _served(self, keeper: Keeper, engine: Keeper | None, address: str) -> Table:
        """Returns a table of a server or a catalogue."""
        if engine not in (None, keeper):
            self._wrong("engine", f"does not go with a source in {keeper.value}", "leave it out")
        parts = self._table(f"in {keeper.value}", 2 if keeper is Keeper.POSTGRESQL else 3)
        return Table(keeper, parts, address=address)

    def _address(self, text: str) -> str | None:
        """Returns the address of a PostgreSQL server if it has no secrets. Mistakes are noted without quoting it."""
        try:
            parts = urlsplit(text)
            secret, options = parts.password is not None, parse_qsl(parts.query, keep_blank_values=True)
            _ = parts.port
        except ValueError:
            self._wrong("source", "is no address of a PostgreSQL server", EXAMPLE)
            return None
        if secret or re.search(r"pass(word|file)", text, re.IGNORECASE):
            right = "leave it out: PGPASSWORD or the file ~/.pgpass holds it"
            self._wrong("source", "has a password in it", right)
        elif parts.scheme not in ("postgresql", "postgres") or any(sign.isspace() for sign in text):
            self._wrong("source", "is no address of a PostgreSQL server", EXAMPLE)
        elif any(name not in PARAMETERS for name, _ in options):
            self._wrong("source", "has a parameter that is not read", f"use only {', '.join(sorted(PARAMETERS))}")
        else:
            return text
        return None

    def _engine(self) -> Keeper | None:
        value = self._tree.get("engine")
        try:
            return None if value is None else Keeper(value)
        except ValueError:
            kinds = ", ".join(f'"{keeper.value}"' for keeper in Keeper)
            self._wrong("engine", f"{value!r} is no engine", f"use one of {kinds}, or leave it out")
            return None

    def _column_names(self) -> tuple[str, ...]:
        """Returns the column names of a CSV file without a header; empty if the file has one."""
        names = self._tree.get("column_names")
        if names is None:
            return ()
        texts = isinstance(names, list) and all(isinstance(name, str) and name.strip() == name != "" for name in names)
        if not texts or not names or len({name.lower() for name in names}) < len(names):
            right = 'write one name per column of the file, all different: column_names = ["age", "town"]'
            self._wrong("column_names", "are no names", right)
            return ()
        return tuple(names)

    def _table(self, where: str, most: int) -> tuple[str, ...]:
        """Returns the parts of the table's name; a part with a dot in it is written in double quotes."""
        text = self._text("table", f'write table = "people", the table {where}')
        if not text:
            return ()
        parts, position = [], 0
        while match := NAME_PART.match(text, position):
            parts.append((match.group(1) or match.group(2)).replace('""', '"'))
            position = match.end()
        if position < len(text) or text.endswith(".") or len(parts) > most or any(len(part) > 255 for part in parts):
            right = f'write a name of at most {most} parts, e.g. table = "survey.people"'
            self._wrong("table", f"{text!r} is no table", right)
        return tuple(parts)

    def _text(self, key: str, right: str) -> str:
        value = self._tree.get(key)
        if not isinstance(value, str) or not value or "\x00" in value:
            self._wrong(key, "is missing" if value is None else f"{value!r} is no text", right)
            return ""
        return value
