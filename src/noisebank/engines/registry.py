"""Chooses the engine for a policy's source."""

from __future__ import annotations

from noisebank.engines.duckdb_engine import DuckDBEngine, DuckDBTableEngine, header_of
from noisebank.engines.engine import Engine
from noisebank.engines.postgres_engine import PostgresEngine, postgres_header
from noisebank.engines.spark_engine import SparkEngine, spark_header
from noisebank.policy.model import Keeper, Policy, Source, Table


def columns_of(source: Source) -> tuple[str, ...]:
    """Returns the names of a table's columns: metadata, no rows."""
    if isinstance(source, Table) and source.keeper is Keeper.POSTGRESQL:
        return postgres_header(source)
    if isinstance(source, Table) and source.keeper is Keeper.SPARK:
        return spark_header(source)
    return header_of(source)


def engine_of(policy: Policy, header: tuple[str, ...], row_key: str) -> Engine:
    """Returns the engine for a policy's table. Nothing is opened before the first statement."""
    source = policy.source
    if not isinstance(source, Table) or (source.keeper is Keeper.DUCKDB and not source.parts):
        return DuckDBEngine(policy, header, row_key)
    if source.keeper is Keeper.POSTGRESQL:
        return PostgresEngine(policy, header, row_key)
    if source.keeper is Keeper.SPARK:
        return SparkEngine(policy, header, row_key)
    return DuckDBTableEngine(policy, header, row_key)
