"""A finished crowd's task for the served demonstration: recorded, since training takes minutes.

The archive holds the crowd's chain, all models and some test images; `support.record_crowd` of the tests made it. Pages
and `noisebank learn verify` recompute every round from it.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

ARCHIVE = Path(__file__).with_name("crowd.zip")
CHAIN, MODELS, TEST = "chain", "models", "test.npz"


def unpack_crowd(folder: Path) -> None:
    """Write the recorded task into `folder`: its chain, its models, its test images."""
    with ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
