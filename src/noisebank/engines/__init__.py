"""Engines: exact statistics of a table in DuckDB, PostgreSQL or Spark. The only package that reads the data.

`engine.Engine` is the interface, `registry.make_engine` the entry; `mechanism.measure` adds the noise.
"""
