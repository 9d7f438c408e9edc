"""Figures 5.3 to 5.8 of P4: test accuracy by normalisation, epsilon, batch size, local and global epochs.

`quick`: scikit-learn's digits. Otherwise MNIST with the paper's network, ten members and its batch sizes, at a fortieth
of its work (600 of 6,000 images a member, a quarter of its local epochs): its own scale is a day of one core.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from noisebank.core.digests import keccak
from noisebank.federated.blockfl.device import Examples
from noisebank.federated.blockfl.examples import read_digits, read_mnist
from noisebank.federated.blockfl.network import DIGITS_SHAPE, PAPER_SHAPE, NetworkShape
from research.blockfl.training import Setting, Trained, train

Progress = Callable[[int, int], None]
EPSILONS = (1.0, 2.0, 5.0, 10.0)
BATCHES = (32, 64, 128)
PAPERS_LOCAL = (20, 30, 40)
PAPERS_SECONDS = {"Raspberry Pi 4": 144.0, "laptop": 9.0}
PAPERS_BYTES = 617_800


@dataclass(frozen=True)
class Scale:
    """How large an experiment is, beside the paper's."""

    name: str
    shape: NetworkShape
    base: Setting
    seeds: int
    tested: int
    globals: int
    local: dict[int, int]
    """The paper's local epochs, and ours for them."""
    sure: int = 0
    """So many settings of the plan, the first ones, are trained with all seeds; the others with one."""

    def data(self, seed: int) -> tuple[Examples, Examples]:
        """Images for one run."""
        return read_digits(seed) if self.name == "digits" else read_mnist()


QUICK = Scale(
    "digits", DIGITS_SHAPE, Setting("bounded", None, members=5, images=288, local_epochs=20), 3, 357, 3,
    {20: 10, 30: 15, 40: 20}, sure=7,
)  # fmt: skip
FULL = Scale(
    "mnist", PAPER_SHAPE, Setting("bounded", None, members=10, images=600, local_epochs=10), 1, 10_000, 4,
    {20: 5, 30: 8, 40: 10},
)  # fmt: skip
WHOLE = replace(
    FULL, name="mnist-whole", base=replace(FULL.base, images=6_000, local_epochs=40, rate=0.01),
    local={20: 20, 30: 30, 40: 40},
)  # fmt: skip
"""The paper's own scale: for whoever has a day."""


def plan(scale: Scale) -> list[Setting]:
    """Every training that the figures need, each once, the most telling first."""
    base, longest = scale.base, scale.globals
    wanted: list[Setting] = [
        replace(base, global_epochs=2),
        replace(base, epsilon=2.0, global_epochs=longest),
        replace(base, norm="batch", epsilon=2.0),
        replace(base, epsilon=10.0, global_epochs=longest),
        replace(base, norm="batch", epsilon=10.0),
        replace(base, epsilon=1.0, global_epochs=longest),
        replace(base, norm="batch", epsilon=1.0),
    ]
    for batch in BATCHES:
        wanted += [
            replace(base, batch=batch, epsilon=2.0, global_epochs=max(3, longest if batch == 64 else 3)),
            replace(base, norm="batch", batch=batch, epsilon=2.0, global_epochs=2 if batch == 64 else 1),
            replace(base, batch=batch, global_epochs=2 if batch == 64 else 1),
            replace(base, norm="batch", batch=batch, global_epochs=1),
        ]
    wanted += [replace(base, epsilon=2.0, local_epochs=local, global_epochs=longest) for local in scale.local.values()]
    wanted += [replace(base, epsilon=5.0, global_epochs=longest), replace(base, norm="batch", epsilon=5.0)]
    return list(dict.fromkeys(wanted))


def run(
    scale: Scale,
    settings: Iterable[Setting],
    progress: Progress = lambda done, total: None,
    kept: Path | None = None,
    processes: int | None = None,
) -> list[Trained]:
    """Trains them all. With `kept` each result is written there when it is made, and not made again."""
    jobs = [
        (setting, seed)
        for place, setting in enumerate(settings)
        for seed in range(scale.seeds if place < scale.sure else 1)
    ]
    found = {job: _known(kept, scale, *job) for job in jobs}
    todo = [job for job in jobs if found[job] is None]
    progress(len(jobs) - len(todo), len(jobs))
    workers = processes or min(len(os.sched_getaffinity(0)), max(1, len(todo)))
    if workers == 1:
        for setting, seed in todo:
            found[setting, seed] = _kept(kept, scale, _one(scale, setting, seed))
            progress(sum(1 for made in found.values() if made is not None), len(jobs))
    elif todo:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(_one, scale, *job): job for job in todo}
            for done in as_completed(waiting):
                found[waiting[done]] = _kept(kept, scale, done.result())
                progress(sum(1 for made in found.values() if made is not None), len(jobs))
    return [made for made in found.values() if made is not None]


def figures(scale: Scale, trained: list[Trained]) -> dict[str, Any]:
    """The numbers of each figure: means over seeds, clean and noisy test features."""
    base = scale.base

    def at(epoch: int, **changed: Any) -> dict[str, float] | None:
        wanted = replace(base, **changed)
        rows = [
            made for made in trained
            if replace(made.setting, global_epochs=2) == replace(wanted, global_epochs=2) and len(made.clean) >= epoch
        ]  # fmt: skip
        if not rows:
            return None
        clean, noisy = ([getattr(made, kind)[epoch - 1] for made in rows] for kind in ("clean", "noisy"))
        return {"clean": _mean(clean), "noisy": _mean(noisy), "spread": _spread(clean), "noisy_spread": _spread(noisy)}

    epochs = range(1, scale.globals + 1)
    full = scale.local[40]
    return {
        "5.3": {
            "no noise": at(2),
            **{f"ours, epsilon {e:g}": at(2, epsilon=e) for e in EPSILONS},
            **{f"batch norm, epsilon {e:g}": at(2, norm="batch", epsilon=e) for e in EPSILONS},
        },
        "5.4": {
            f"{kind}, batch {n}": at(1, norm=norm, batch=n, epsilon=2.0)
            for kind, norm in (("ours", "bounded"), ("batch norm", "batch")) for n in BATCHES
        },
        "5.5": {
            f"{kind}, batch {n}": at(1, norm=norm, batch=n)
            for kind, norm in (("ours", "bounded"), ("batch norm", "batch")) for n in BATCHES
        },
        "5.6": {f"batch {n}, global epoch {g}": at(g, batch=n, epsilon=2.0) for n in BATCHES for g in (1, 2, 3)},
        "5.7": {f"epsilon {e:g}, global epoch {g}": at(g, epsilon=e) for e in EPSILONS for g in epochs},
        "5.8": {
            f"paper's local epochs {paper} (here {ours}), global epoch {g}": at(
                g, epsilon=2.0, local_epochs=ours if ours != full else base.local_epochs
            )
            for paper, ours in scale.local.items() for g in epochs
        },
    }  # fmt: skip


def effort(scale: Scale, trained: list[Trained]) -> dict[str, Any]:
    """Training time and model bytes beside the paper's."""
    rows = [made for made in trained if made.setting.batch == 64]
    seconds = sorted(made.seconds_per_epoch for made in rows)
    median = seconds[len(seconds) // 2] if seconds else 0.0
    images = scale.base.images
    return {
        "cpu_seconds_for_an_epoch_of_a_member": median,
        "images_of_a_member": images,
        "cpu_seconds_for_6000_images": median * 6_000 / images,
        "paper_seconds_for_6000_images": PAPERS_SECONDS,
        "model_bytes": 4 * scale.shape.weight_count,
        "paper_model_bytes": PAPERS_BYTES,
    }


def _one(scale: Scale, setting: Setting, seed: int) -> Trained:
    return train(scale.shape, scale.data(seed), setting, seed, scale.tested)


def _file(kept: Path, scale: Scale, setting: Setting, seed: int) -> Path:
    name = keccak(json.dumps([scale.name, setting.plain(), seed], sort_keys=True).encode()).hex()[:16]
    return kept / f"{scale.name}-{name}.json"


def _known(kept: Path | None, scale: Scale, setting: Setting, seed: int) -> Trained | None:
    path = None if kept is None else _file(kept, scale, setting, seed)
    if path is None or not path.is_file():
        return None
    plain = json.loads(path.read_text())
    return Trained(
        setting, seed, tuple(plain["clean"]), tuple(plain["noisy"]), plain["seconds_per_epoch"], plain["model_bytes"]
    )


def _kept(kept: Path | None, scale: Scale, made: Trained) -> Trained:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        plain = {
            "setting": made.setting.plain(), "seed": made.seed, "clean": made.clean, "noisy": made.noisy,
            "seconds_per_epoch": made.seconds_per_epoch, "model_bytes": made.model_bytes,
        }  # fmt: skip
        _file(kept, scale, made.setting, made.seed).write_text(json.dumps(plain) + "\n")
    return made


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _spread(values: list[float]) -> float:
    """Largest minus smallest over seeds."""
    return max(values) - min(values)


def pairs(figure: dict[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """The points of a figure that were made."""
    return ((name, row) for name, row in figure.items() if row is not None)
