"""Connects to PostgreSQL servers, for the vault and for tables.

A server's own messages have hosts and names in them, so errors tell only the kind of failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

PATIENCE = 10
"""Seconds to wait for a server that does not answer."""
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}
"""A server that fell off the network is noticed within half a minute; the system's defaults take hours."""
REASONS = (
    ("password", "it refuses the password"),
    ("does not exist", "it does not know the role or the database"),
    ("pg_hba.conf", "it lets nobody in this way"),
    ("too many", "it has too many connections"),
    ("timeout", "it does not answer"),
)
"""A part of the server's message, and what we report for it."""


def installed() -> bool:
    """Whether the extra `[postgres]` is installed."""
    return find_spec("psycopg") is not None


def reason(error: Exception) -> str:
    """Returns why there is no connection, without telling where the server is."""
    message = str(error)
    return next((reported for part, reported in REASONS if part in message), "no connection")


def connect(address: str, settings: Mapping[str, str]) -> psycopg.Connection[Any]:
    """Returns a connection on which every statement is a transaction. Raises psycopg's own errors, which the caller
    must hide from users."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    known = {"connect_timeout": PATIENCE, "application_name": "noisebank", **ALIVE, **conninfo_to_dict(address)}
    connection = psycopg.connect(make_conninfo("", **known), autocommit=True)
    try:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    except BaseException:
        connection.close()
        raise
    return connection
