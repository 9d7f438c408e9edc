"""`noisebank learn`: the group of commands of federated learning; other modules add them."""

from __future__ import annotations

import click


@click.group("learn")
def learn_group() -> None:
    """Learn a model from devices that keep their data. What each gives away is on the ledger."""
