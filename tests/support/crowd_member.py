"""One member of a task as a process of its own, honest or cheating: `python -m support.crowd_member '{...}'`.

Cheats are here and not in the product: each breaks one rule, and the round must complete without it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from noisebank.federated.blockfl.member import CrowdMember
from support.internals import (
    Examples,
    FolderStore,
    Key,
    Model,
    ModelRegistry,
    SortitionKey,
    SplitTrainer,
    Weights,
    simulation_rng,
)
from support.patience import wait_until

CLASSES = 4


def glyphs(seed: int, count: int) -> Examples:
    """Made-up images of 8 x 8: four shapes with some noise."""
    shapes = simulation_rng(1).random((CLASSES, 8, 8))
    source = simulation_rng(seed)
    labels = source.integers(0, CLASSES, count)
    images = np.clip(shapes[labels] + source.normal(0, 0.15, (count, 8, 8)), 0, 1)
    return Examples(images.astype(np.float32), labels.astype(np.int64))


class Cheat(CrowdMember):
    """`conduct` says what is broken; in which round, or in which the member leads."""

    conduct = "honest"
    victim_round = 2

    def train_model(self, previous_model: Model, round: int) -> bytes:
        if self.conduct == "killed" and round == self.victim_round:
            os.kill(os.getpid(), 9)
        honest = super().train_model(previous_model, round)
        if self.conduct == "sign_flip":
            own = np.frombuffer(honest.partition(b"\n")[2], dtype="<i4").astype(np.int64)
            flipped: Weights = np.clip(
                previous_model.weights - 3 * (own - previous_model.weights), -(2**27) + 1, 2**27 - 1
            )
            return Model(self.task_hex, round, self.address, flipped).to_bytes()
        if self.conduct == "forged" and round == self.victim_round:
            return self._stolen(round)
        return honest

    def publish_model(self, content: bytes) -> bytes:
        digest = super().publish_model(content)
        if self.conduct == "wrong_cid" and content.startswith(b'{"author"') and f'"round":{self.victim_round},' in (
            content.split(b"\n")[0].decode()
        ):  # fmt: skip
            return bytes(digest[i] ^ 0xFF for i in range(32))
        return digest

    def make_proposal(self, round: int) -> tuple[bytes, int]:
        digest, verdicts = super().make_proposal(round)
        if (
            self.conduct not in ("first_lies", "sign_flip")
            or round > 1
            or self.registry.read_books(self.task).current_round.proposals
        ):
            return digest, verdicts
        poisoned = np.full(len(self._before(round)), 7, dtype=np.int64)
        self.log(f"{self.address} leads round {round} and lies")
        return self.store.put(Model(self.task_hex, round, "", poisoned).to_bytes()), verdicts

    def _before(self, round: int) -> bytes:
        return b"\0" * ((len(self.compute_judgement(round).encoded_model.partition(b"\n")[2])) // 4)

    def _stolen(self, round: int) -> bytes:
        """Somebody else's model of this round, submitted as one's own."""
        return wait_until(self.find_prey, "somebody else submits", seconds=1_200, poll=0.2)

    def find_prey(self) -> bytes | None:
        """Returns the first model of others that is stored: nothing is stored under the identifier of `wrong_cid`."""
        submissions = self.registry.read_books(self.task).current_round.submissions
        models = (self.store.get(one.digest) for one in submissions if one.member != self.address)
        return next((model for model in models if model is not None), None)


def main(said: dict) -> None:
    registry = ModelRegistry(said["rpc"], said["contract"])
    key, lot = Key(bytes.fromhex(said["key"])), SortitionKey(bytes.fromhex(said["lot"]))
    examples = glyphs(said["number"] + 10, 64)
    member = Cheat(
        registry, FolderStore(Path(said["store"])), key, lot, bytes.fromhex(said["task"]),
        lambda terms, books: SplitTrainer(terms, examples, said["edge"]),
        log=lambda line: sys.stderr.write(line + "\n"),
    )  # fmt: skip
    member.conduct = said["conduct"]
    done = member.run(said["wait"])
    json.dump({"submitted": done.submitted_rounds, "led": done.led_rounds, "opposed": done.opposed_leaders}, sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
