"""learn: the group that commands of federated learning join."""

from __future__ import annotations

import click


@click.group("learn")
def learn() -> None:
    """Learn a model from devices that keep their data; what each gives away is on the ledger."""
