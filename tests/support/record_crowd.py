"""Records the finished crowd's task that `noisebank demo --serve` shows:  python -m support.record_crowd

Seven members train on scikit-learn's digits for four rounds; one turns its updates around, one once submits a model
that is nowhere. Chain, models and test images go into one archive in the package, made anew only if a format changes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from noisebank.federated.blockfl.terms import TaskTerms
from support.crowd_played import Played, own_chain
from support.internals import SMALL_SHAPE, Examples, TaskRules, read_digits
from support.paths import ROOT

ARCHIVE = ROOT / "src/noisebank/demo/crowd.zip"
MEMBERS, TESTED = 7, 120
TERMS = TaskTerms("handwritten digits", SMALL_SHAPE, epsilon="10", batch=32, epochs=20)
RULES = TaskRules(round_count=4, byzantine=2, expected_seats=20, patience_seconds=600)
CHEATS = {(1, 5): "missing", **{(number, 6): "flipped" for number in (2, 3, 4)}}
DATE = (2026, 11, 18, 0, 0, 0)


def main(archive: Path = ARCHIVE) -> None:
    """Plays the task and writes the archive."""
    training, testing = read_digits(0)

    def share(number: int) -> Examples:
        return Examples(training.images[number::MEMBERS], training.labels[number::MEMBERS])

    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        with own_chain(folder) as url:
            played = Played(folder, url, TERMS, RULES, MEMBERS, dict(CHEATS), share)
            played.play()
        images = np.rint(testing.images[:TESTED] * 16).astype(np.uint8)
        np.savez_compressed(folder / "test.npz", images=images / np.float32(16), labels=testing.labels[:TESTED])
        with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=9) as packed:
            for path in sorted([folder / "chain/crowd.sqlite", folder / "test.npz", *(folder / "models").iterdir()]):
                info = ZipInfo(str(path.relative_to(folder)), DATE)
                info.compress_type = ZIP_DEFLATED
                packed.writestr(info, path.read_bytes(), compresslevel=9)
                print(f"{info.filename}: {path.stat().st_size} bytes")
    print(f"{archive}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
