"""Opens DuckDB connections that compute from the values alone, never from a file's statistics.

DuckDB's optimisers also use the statistics in files: the least and the largest value of a group of rows, which writers
compute without NaN. A comparison is then decided, or rows are left out, for a whole group at once, so that one person's
value changes the result for others. So every optimiser is off, also those of later versions, but the few below.
"""

from __future__ import annotations

import tempfile
from base64 import b85decode
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import decompress

from noisebank.core.errors import BadTable
from noisebank.engines.statement import literal

if TYPE_CHECKING:
    import duckdb

ALLOWED = {
    "unused_columns": "reads the columns that a statement names and no others; without it a scan reads the whole file",
    "in_clause": "looks a text up among a thousand keys instead of comparing it with each: over 100 times as fast",
}
"""The optimisers that stay on. Neither looks at values or statistics: they work on the statement alone."""
PROBE = (
    "c-jka3^EjD5cLuD(GleUGT21fWF$BkAix2}`d}}{pn*kHP!LEl0Wk+7MCeC7D*eG8rU_`an5Y=S5;Hap#v}>GB)AdGj36_TM42RQ"
    "Oc^BDijy-^a}z~b7(}^LnIsr17({tMbfPMQj|@<q7>A^cq>dVcj3}3+DjS0&P=zQ^Q0x>V5UFw4kmLtR8K9#WM41?DG}$E87(h}W"
    "lX;*fCxT555DQSd#At)$ZiF^5CP|=1Hjp>OW-*CzsBr)(1`UOR#G=B|)Dqp~f&$&dqN4nAg|gJ5;>`R!1tT*(13g1Y9iU%8-uVW^"
    "0l=sL0PkQi%K"
)
"""A Parquet file by pyarrow: x is NaN, NaN, 1, 2, stated to end at 2; a is one text and three NULLs, no dictionary."""
RIGHT = (2, 2, 2, 2, 3, 3)


def connected() -> duckdb.DuckDBPyConnection:
    """Returns a connection to a database in memory with only the allowed optimisers."""
    check_version()
    return _connected()


@cache
def check_version() -> None:
    """Refuses a DuckDB that uses the statistics of a file all the same: tried out once per process."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "probe.parquet")
        path.write_bytes(decompress(b85decode(PROBE)))
        file = f"read_parquet({literal(str(path))})"
        counts = (
            "SELECT count_if(x > 5), count_if(x > 'inf'::DOUBLE), count_if(x <= 'inf'::DOUBLE), "
            f"(SELECT count(*) FROM {file} WHERE x > 5), (SELECT count(*) FROM {file} WHERE a IS NULL), "
            f"count_if(a IS NULL) FROM {file}"
        )
        with _connected() as connection:
            right = connection.execute(counts).fetchone() == RIGHT
    if not right:
        raise BadTable(f"DuckDB {duckdb.__version__} cannot be trusted with NaN in Parquet files: use another version")


def _connected() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    off = known - ALLOWED.keys()
    connection.execute(f"SET disabled_optimizers = {literal(','.join(sorted(off)))}")
    (held,) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchone() or ("",)
    if {name.strip() for name in str(held).split(",")} - {""} != off:
        raise BadTable(f"DuckDB {duckdb.__version__} does not turn its optimisers off: use another version")
    return connection
