"""Whole banks on the made-up survey, each in a folder of its own, on either chain; their noise can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from noisebank.account.account import Account
from noisebank.bank.bank import Bank
from noisebank.bank.folder import KEYS, create_bank
from noisebank.core.entropy import simulation_rng
from noisebank.demo.survey import write_survey
from noisebank.ledger.protocol import Role
from noisebank.ledger.rpc import deploy_contract
from noisebank.ledger.signing import Key
from research.benches.anvil import fund


class SeededEntropy:
    """NOT for noise that protects people: rounded normal draws from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = simulation_rng(seed)

    def discrete_gaussian(self, scale: float) -> int:
        """At 2^26 steps and more, rounding is not to be seen."""
        return round(float(self._generator.standard_normal()) * scale)

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    def token(self, size: int = 32) -> bytes:
        return self._generator.bytes(size)


@contextmanager
def survey_account(seed: int, budget: str = "8", url: str | None = None) -> Iterator[Account]:
    """An account on the made-up survey, in a bank that is gone afterwards. `url`: its ledger is on that test chain."""
    with TemporaryDirectory(prefix="noisebank-papers-") as room:
        folder = Path(room)
        policy = write_survey(folder, seed)
        policy.write_text(policy.read_text().replace("epsilon = 8", f"epsilon = {budget}"))
        entropy = SeededEntropy(seed)
        where = None
        if url is not None:
            deployer = Key(entropy.token())
            fund(url, deployer.address)
            where = deploy_contract(url, deployer)
        create_bank(folder / "bank", entropy=entropy, where=where)
        if url is not None:
            fund(
                url,
                *(
                    Key.load(folder / "bank" / KEYS / f"{role.value}.key").address
                    for role in (Role.CURATOR, Role.OWNER)
                ),
            )
        with Bank(folder / "bank", entropy=SeededEntropy(seed + 10_000)) as bank:
            yield bank.open_account(policy)
