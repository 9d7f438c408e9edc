"""The Spark engine (extra `[spark]`): a Parquet or CSV path, or a table of Spark's catalogue.

An existing session is used if there is one; otherwise Spark starts on this machine, or wherever its
own configuration says.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from noisebank.core.errors import BadTable
from noisebank.engines.csv_lines import count_csv_rows, line_end
from noisebank.engines.dialect import StorageType
from noisebank.engines.duckdb_engine import csv_header
from noisebank.engines.engine import Inspection
from noisebank.engines.spark_dialect import SPARK
from noisebank.engines.sql_engine import SqlEngine
from noisebank.policy.model import Policy, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",  # ${...} in a name is a name
    # No rows are left out, and nothing is decided, by what files and caches say of themselves: they leave NaN out.
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.recordLevelFilter.enabled": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.avro.filterPushdown.enabled": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    # Days before 1582 are read as they stand. Otherwise one person's date ends every question about its column.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.cbo.enabled": "false",
    "spark.sql.optimizer.metadataOnly": "false",
}
READABLE_FORMATS = frozenset(("Parquet", "ORC", "Avro"))
"""Formats of catalogue tables that are read: the settings above reach these readers, and no text of a person can end a
row there. Other catalogues (Iceberg, Delta) choose files by statistics; text files are split at any line end."""
STORAGE_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), StorageType.INTEGER),
    **dict.fromkeys(("float", "double"), StorageType.FLOAT),
    "boolean": StorageType.BOOLEAN,
    "string": StorageType.TEXT,
    "binary": StorageType.BYTES,
    "date": StorageType.DATE,
    "timestamp_ntz": StorageType.CLOCK,
    "timestamp": StorageType.INSTANT,
}


class SparkEngine(SqlEngine):
    """An `Engine` over one table or path. One statement is one Spark job."""

    def __init__(self, policy: Policy, header: tuple[str, ...], row_key: str) -> None:
        super().__init__(policy, header, row_key, SPARK)
        assert isinstance(policy.source, Table)
        for name in policy.columns:
            if "${" in name:  # Hadoop puts a setting in its place, and the column reads as missing
                raise BadTable(f"Spark cannot read a column named {name}; rename it")
        self._spark_table = _SparkTable(policy.source, header)

    def identity(self) -> str:
        """Digests names, sizes and times of change of all files."""
        return self._spark_table.identity()

    def inspect(self) -> Inspection:
        """See `SqlEngine`. Refuses CSV files in which Spark sees other rows than their lines."""
        rows = self._spark_table.count_csv_rows()
        inspection = super().inspect()
        if rows not in (None, inspection.rows):
            raise BadTable(f"{self._policy.source.name} has {rows} rows, of which Spark reads {inspection.rows}")
        return inspection

    def _storage_types(self) -> Mapping[str, StorageType]:
        return self._spark_table.storage_types()

    def _table_sql(self) -> str:
        return self._spark_table.view

    def _run_sql(self, sql: str) -> list[Any]:
        return self._spark_table.run_sql(sql)


def spark_header(source: Table) -> tuple[str, ...]:
    """Returns the names of a table's columns: metadata, no rows."""
    if source.path is not None and _is_csv(source.path):
        names = {csv_header(file, source.column_names) for file in csv_files(source.path)}
        if len(names) != 1:
            raise BadTable(f"the files of {source.path} do not begin with the same header")
        return names.pop()
    if source.column_names:
        raise BadTable(f"{source.path} has names of its own: column_names are for CSV files without a header")
    return tuple(_SparkTable(source, ()).storage_types())


class _SparkTable:
    """One table as a view with a unique name, in a Spark session of its own."""

    def __init__(self, source: Table, header: tuple[str, ...]) -> None:
        self._source, self._header = source, header
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._cached_frame: tuple[tuple[SparkSession, list[str]], DataFrame] | None = None
        self.view = f"noisebank_{uuid4().hex}"

    def storage_types(self) -> Mapping[str, StorageType]:
        """Returns names and storage types of the columns."""
        with self._lock:
            fields = self._run_in_session(lambda session: self._current_frame(session).schema.fields)
        return {field.name: _storage_type(field.dataType.simpleString()) for field in fields}

    def count_csv_rows(self) -> int | None:
        """Returns how many rows all CSV files have by their lines; None for other tables."""
        path = self._source.path
        if path is None or not _is_csv(path):
            return None
        files = _data_files(path)
        if len({line_end(file) for file in files if file.stat().st_size}) > 1:
            raise BadTable(f"the lines of some files of {path} end in CR LF, and those of others in LF")
        header = not self._source.column_names
        return sum(count_csv_rows(file, header, blank_rows=False) for file in files)  # Spark skips blank lines

    def run_sql(self, sql: str) -> list[Any]:
        """Runs one statement and returns its rows."""

        def collect_rows(session: SparkSession) -> list[Any]:
            self._current_frame(session).createOrReplaceTempView(self.view)
            return [tuple(row) for row in session.sql(sql).collect()]

        with self._lock:
            return list(self._run_in_session(collect_rows))

    def identity(self) -> str:
        """Returns a digest of all files: where they lie, how large they are, when they changed."""
        digest = blake2b(digest_size=16)
        for fact in self._local_facts() if self._source.path is not None else self._catalogue_facts():
            digest.update(f"{len(fact)}:{fact}".encode())
        return f"Spark {digest.hexdigest()}"

    def _local_facts(self) -> list[str]:
        assert self._source.path is not None
        facts = []
        for file in _data_files(self._source.path):
            status = file.stat()
            facts.append(f"{file.relative_to(self._source.path.parent)} {status.st_size} {status.st_mtime_ns}")
        return facts

    def _catalogue_facts(self) -> list[str]:
        def read_facts(session: SparkSession) -> list[str]:
            frame = self._load_frame(session)
            jvm: Any = session._jvm
            hadoop: Any = session._jsparkSession.sessionState().newHadoopConf()
            facts = [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields]
            for file in sorted(frame.inputFiles()):
                path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
                status = path.getFileSystem(hadoop).getFileStatus(path)
                facts.append(f"{file} {status.getLen()} {status.getModificationTime()}")
            return facts

        with self._lock:
            return list(self._run_in_session(read_facts))

    def _current_frame(self, session: SparkSession) -> DataFrame:
        """Returns the table as it is now. Reading a schema is a Spark job: it is cached until a file changes."""
        if self._source.path is None:
            return self._load_frame(session)
        facts = (session, self._local_facts())
        if self._cached_frame is None or self._cached_frame[0] != facts:
            self._cached_frame = facts, self._load_frame(session)
        return self._cached_frame[1]

    def _load_frame(self, session: SparkSession) -> DataFrame:
        if self._source.path is None:
            name = ".".join(SPARK.quote_name(part) for part in self._source.name_parts)
            session.catalog.refreshTable(name)
            frame = session.table(name)
            _check_formats(frame)
            return frame
        path = str(self._source.path)
        reader = session.read.option("recursiveFileLookup", "true")  # names of folders are no columns
        if not _is_csv(self._source.path):
            return reader.option("mergeSchema", "false").parquet(_escape_path(path))
        from pyspark.sql.functions import col, lit, nullif

        schema = ", ".join(f"c{number} STRING" for number in range(len(self._header)))
        header = "false" if self._source.column_names else "true"
        options = {"header": header, "quote": '"', "escape": '"', "multiLine": "true", "maxCharsPerColumn": "-1"}
        options["lineSep"] = line_end(_data_files(self._source.path)[0]).decode()
        frame = reader.schema(schema).options(**options).csv(_escape_path(path))
        columns = [
            nullif(col(name), lit("")).alias(title) for name, title in zip(frame.columns, self._header, strict=True)
        ]
        return frame.select(*columns)

    def _run_in_session(self, action: Any) -> Any:
        if self._source.path is not None:
            _data_files(self._source.path)
        _check_installed()
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            if self._session is None:
                self._session = _make_session()
            return action(self._session)
        except (PySparkException, Py4JError, OSError) as error:
            self._session = None
            # Messages quote values and plans: only their kind leaves this module.
            raise BadTable(f"{self._source.name} cannot be read by Spark ({type(error).__name__})") from None


def _make_session() -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.log.level", "OFF").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.appName("noisebank").getOrCreate().newSession()
    session.sparkContext.setLogLevel("OFF")  # its log would quote values
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    if session.sparkContext.master.startswith("local"):  # Spark's default of 200 pieces is for clusters
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
    return session


def _check_installed() -> None:
    if find_spec("pyspark") is None:
        raise BadTable("Spark needs pyspark and Java: pip install 'noisebank[spark]'")


def _check_formats(frame: DataFrame) -> None:
    """Refuses a catalogue table that is not read by Spark's own readers, or whose rows are lines of text."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        kind = str(leaf.nodeName())
        if kind.startswith("LogicalRelation"):
            relation = leaf.relation()
            files = relation.getClass().getSimpleName() == "HadoopFsRelation"
            kind = str(relation.fileFormat().toString() if files else relation.getClass().getSimpleName())
        if kind not in READABLE_FORMATS:
            raise BadTable(f"a table of Spark's catalogue is stored as {kind}: copy it into a table of Parquet files")


def _storage_type(kind: str) -> StorageType:
    return STORAGE_TYPES.get(kind, StorageType.DECIMAL if kind.startswith("decimal") else StorageType.OTHER)


def csv_files(path: Path) -> list[Path]:
    """Returns the non-empty files of a CSV table; an empty list for other formats."""
    return [file for file in _data_files(path) if file.stat().st_size] if _is_csv(path) else []


def _is_csv(path: Path) -> bool:
    kinds = {file.suffix.lower() == ".csv" for file in _data_files(path)}
    if len(kinds) > 1:
        raise BadTable(f"{path} mixes CSV with other files")
    return kinds == {True}


def _data_files(path: Path) -> list[Path]:
    """Returns the files that Spark reads: not those whose names begin with a dot or an underscore."""
    try:
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    except OSError as error:
        raise BadTable(f"{path} cannot be read: {error.strerror}") from None
    visible = [
        file for file in files if not any(part[0] in "._" for part in file.relative_to(path.parent).parts[1:] or ())
    ]
    if not visible:
        raise BadTable(f"there is no file {path}")
    return visible


def _escape_path(path: str) -> str:
    """Returns a path with the characters escaped that Spark reads as patterns."""
    return "".join(f"\\{sign}" if sign in "*?[]{}\\" else sign for sign in path)
