"""Which trainings the figures of chapter 5 need, the most telling first, and what of them there is already.

Results are lines of a file that is part of the project: each with its setting, seed, accuracies, and the commit that it
was made on. Whoever has a processor to spare adds lines: `python -m research crowd`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from subprocess import run
from typing import Any

from noisebank.core.digests import keccak
from noisebank.federated.blockfl.device import Examples
from noisebank.federated.blockfl.examples import read_digits, read_mnist
from noisebank.federated.blockfl.network import DIGITS_SHAPE, PAPER_SHAPE, NetworkShape
from research.blockfl.training import Setting, Trained, train

RESULTS = Path("docs/results/crowd-trainings.jsonl")
SEEDS = 5
EPSILONS = (1.0, 2.0, 5.0, 10.0)
BATCHES = (32, 64, 128)
EPSILON = 2.0
"""The thesis' default."""
PASS_SECONDS = {8: 0.016 / 288, 28: 1.8 / 6_000}
"""CPU seconds of a pass over one image, by its side: where no training has measured it yet."""


@dataclass(frozen=True)
class Scale:
    """Images, network, and how much work a training is."""

    name: str
    title: str
    shape: NetworkShape
    base: Setting
    local: tuple[int, int, int]
    """Local epochs that stand for the 20, 30 and 40 of the thesis; on digits the last one is the default."""
    equal_steps: dict[int, int]
    """By batch size: local epochs with as many steps of descent as the default has."""

    def data(self, seed: int) -> tuple[Examples, Examples]:
        """Images for one training."""
        return read_digits(seed) if self.name.startswith("digits") else read_mnist()


DIGITS = Scale(
    "digits", "digits 8 x 8, momentum 0.9, rate 0.05", DIGITS_SHAPE, Setting("bounded", None), (10, 15, 20),
    {32: 9, 64: 20, 128: 40},
)  # fmt: skip
"""Our own choices: 1,440 images, five members."""
PRINTED: dict[str, Any] = {"optimiser": "sgd", "rate": 0.01, "clip": None, "divided": False}
"""Rate and features as printed, the plainest optimiser, gradients as they are."""
DIGITS_PRINTED = replace(
    DIGITS, name="digits-printed", title="digits 8 x 8, plain descent, rate 0.01 (thesis)",
    base=replace(DIGITS.base, local_epochs=40, **PRINTED), local=(20, 30, 40), equal_steps={32: 18, 64: 40, 128: 80},
)  # fmt: skip
DIGITS_ADAM = replace(
    DIGITS_PRINTED, name="digits-adam", title="digits 8 x 8, Adam, rate 0.01 (thesis)",
    base=replace(DIGITS_PRINTED.base, optimiser="adam"),
)  # fmt: skip
MNIST = Scale(
    "mnist", "MNIST, momentum 0.9, rate 0.05", PAPER_SHAPE,
    replace(DIGITS.base, members=10, images=6_000, local_epochs=1), (1, 2, 4), {64: 1},
)  # fmt: skip
"""All images of the thesis, a fortieth of its passes: with this rate and momentum as long a descent as its own."""
MNIST_PRINTED = replace(
    MNIST, name="mnist-printed", title="MNIST, plain descent, rate 0.01 (thesis)", base=replace(MNIST.base, **PRINTED)
)
MNIST_WHOLE = replace(
    MNIST_PRINTED, name="mnist-whole", title="MNIST, plain descent, rate 0.01, 40 local epochs: the thesis' own work",
    base=replace(MNIST_PRINTED.base, local_epochs=40), local=(20, 30, 40), equal_steps={32: 20, 64: 40, 128: 81},
)  # fmt: skip
SCALES = {one.name: one for one in (DIGITS, DIGITS_PRINTED, DIGITS_ADAM, MNIST, MNIST_PRINTED, MNIST_WHOLE)}


@dataclass(frozen=True)
class Job:
    """One training that is needed."""

    scale: str
    setting: Setting
    seed: int

    def key(self) -> str:
        """Equal for trainings that differ in their global epochs alone: the longer one holds the shorter."""
        return json.dumps([self.scale, replace(self.setting, global_epochs=0).plain(), self.seed], sort_keys=True)


@dataclass(frozen=True)
class Record:
    """One training that was made."""

    scale: str
    trained: Trained
    commit: str
    made: str

    @property
    def key(self) -> str:
        """Of the job that it answers."""
        return Job(self.scale, self.trained.setting, self.trained.seed).key()

    def line(self) -> str:
        """For the file."""
        made = self.trained
        plain = {
            "scale": self.scale, "setting": made.setting.plain(), "seed": made.seed, "clean": list(made.clean),
            "noisy": list(made.noisy), "seconds_per_epoch": round(made.seconds_per_epoch, 4),
            "model_bytes": made.model_bytes, "commit": self.commit, "made": self.made,
        }  # fmt: skip
        return json.dumps(plain)

    @classmethod
    def read(cls, line: str) -> Record:
        """From a line of the file."""
        plain = json.loads(line)
        trained = Trained(
            Setting(**plain["setting"]), plain["seed"], tuple(plain["clean"]), tuple(plain["noisy"]),
            plain["seconds_per_epoch"], plain["model_bytes"],
        )  # fmt: skip
        return cls(plain["scale"], trained, plain["commit"], plain["made"])


def core(scale: Scale) -> list[Setting]:
    """What figures 5.3, 5.6 and 5.7 need at the thesis' batch size."""
    base = scale.base
    return [
        replace(base, epsilon=EPSILON, global_epochs=4),
        replace(base, norm="batch", epsilon=EPSILON),
        replace(base, global_epochs=4),
        *(replace(base, epsilon=epsilon, global_epochs=4) for epsilon in (1.0, 10.0, 5.0)),
        *(replace(base, norm="batch", epsilon=epsilon) for epsilon in (10.0, 1.0, 5.0, None)),
    ]


def batches(scale: Scale) -> list[Setting]:
    """What figures 5.4 to 5.6 need."""
    base = scale.base
    return [
        replace(base, norm=norm, batch=batch, epsilon=epsilon, global_epochs=long if norm == "bounded" else 1)
        for epsilon, long in ((EPSILON, 3), (None, 1)) for norm in ("bounded", "batch") for batch in (32, 128)
    ]  # fmt: skip


def equal_steps(scale: Scale) -> list[Setting]:
    """Figures 5.4 and 5.5 once more, with as many steps for each batch size."""
    return [
        replace(scale.base, norm=norm, batch=batch, epsilon=epsilon, local_epochs=local, global_epochs=1)
        for batch, local in scale.equal_steps.items() if batch != scale.base.batch
        for epsilon in (EPSILON, None) for norm in ("bounded", "batch")
    ]  # fmt: skip


def local_epochs(scale: Scale) -> list[Setting]:
    """What figure 5.8 needs."""
    return [replace(scale.base, epsilon=EPSILON, local_epochs=local, global_epochs=4) for local in scale.local]


def divided_budget(scale: Scale) -> list[Setting]:
    """Epsilon 2 for all global epochs together, each with its share: another reading of "noise increases"."""
    return [replace(scale.base, epsilon=EPSILON / count, global_epochs=count) for count in (2, 3, 4)]


def plan() -> list[Job]:
    """All of them, nothing twice. What decides a claim with all its seeds comes before what shows the next figure."""
    parts: list[tuple[Scale, Sequence[Setting], int]] = [
        (DIGITS, core(DIGITS) + batches(DIGITS) + equal_steps(DIGITS) + local_epochs(DIGITS), SEEDS),
        (DIGITS, divided_budget(DIGITS), SEEDS),
        (DIGITS_PRINTED, core(DIGITS_PRINTED) + local_epochs(DIGITS_PRINTED) + batches(DIGITS_PRINTED), SEEDS),
        (DIGITS_PRINTED, equal_steps(DIGITS_PRINTED) + divided_budget(DIGITS_PRINTED), SEEDS),
        (DIGITS_ADAM, core(DIGITS_ADAM) + batches(DIGITS_ADAM), SEEDS),
        (MNIST, core(MNIST)[:2], SEEDS),  # whether accuracy falls after two global epochs
        (MNIST, [one for one in core(MNIST) if one.epsilon is not None], SEEDS),  # normalisations, 90%
        (MNIST, [one for one in batches(MNIST) if one.epsilon is not None], SEEDS),
        (MNIST_PRINTED, core(MNIST_PRINTED)[:1], SEEDS),
        (MNIST, core(MNIST) + batches(MNIST) + local_epochs(MNIST), SEEDS),
        (MNIST_PRINTED, core(MNIST_PRINTED) + batches(MNIST_PRINTED), SEEDS),
        (MNIST_WHOLE, core(MNIST_WHOLE)[:3], 1),
    ]
    longest: dict[str, Job] = {}
    for scale, settings, seeds in parts:
        for setting in settings:
            for seed in range(seeds):
                job = Job(scale.name, setting, seed)
                before = longest.get(job.key())
                if before is None or before.setting.global_epochs < setting.global_epochs:
                    longest[job.key()] = job
    return list(longest.values())


def read_records(path: Path = RESULTS) -> list[Record]:
    """All that were made; of two for the same training, the longer one."""
    longest: dict[str, Record] = {}
    lines = path.read_text().splitlines() if path.is_file() else []
    for record in map(Record.read, lines):
        before = longest.get(record.key)
        if before is None or len(before.trained.clean) < len(record.trained.clean):
            longest[record.key] = record
    return list(longest.values())


def list_lacking(jobs: Sequence[Job], records: Sequence[Record]) -> list[Job]:
    """The jobs that no record answers."""
    lengths = {record.key: len(record.trained.clean) for record in records}
    return [job for job in jobs if lengths.get(job.key(), 0) < job.setting.global_epochs]


def estimate_hours(jobs: Sequence[Job], records: Sequence[Record]) -> float:
    """CPU hours that these trainings take, from the seconds that trainings with images of this size took."""
    measured: dict[int, list[float]] = {}
    for record in records:
        seconds = record.trained.seconds_per_epoch / record.trained.setting.images
        measured.setdefault(SCALES[record.scale].shape.side, []).append(seconds)
    total = 0.0
    for job in jobs:
        setting, side = job.setting, SCALES[job.scale].shape.side
        known = measured.get(side)
        seconds = sum(known) / len(known) if known else PASS_SECONDS[side]
        total += seconds * setting.images * setting.members * setting.local_epochs * setting.global_epochs
    return total / 3600


def make_records(jobs: Iterable[Job], path: Path, work: Path, threads: int) -> Iterator[Record]:
    """Trains them in turn; each is a line of the file before the next one begins. An interrupted one goes on."""
    commit = read_commit()
    work.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        scale = SCALES[job.scale]
        checkpoint = work / f"{name_checkpoint(job)}.npz"
        trained = train(scale.shape, scale.data(job.seed), job.setting, job.seed, checkpoint, threads)
        record = Record(job.scale, trained, commit, f"{datetime.now(UTC):%Y-%m-%d %H:%M}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(record.line() + "\n")
            file.flush()
            os.fsync(file.fileno())
        yield record


def name_checkpoint(job: Job) -> str:
    """The name of its file, the same in every process."""
    return keccak(f"{job.key()} {job.setting.global_epochs}".encode()).hex()[:16]


def read_commit() -> str:
    """The commit that is checked out, with a mark if files differ from it."""
    head = run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    changed = run(["git", "status", "--porcelain", "src", "research"], capture_output=True, text=True, check=False)
    return f"{head or 'unknown'}{'+changes' if changed.stdout.strip() else ''}"
