"""From reserved to published: what a crash left is finished, nothing is drawn twice. The file takes 0.2 seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from noisebank.core.errors import AnswerLost, LedgerRefused, NoisebankError, Tampered
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION
from noisebank.ledger.protocol import Reservation, Seal
from noisebank.vault.settlement import find_recorded, read_published, settle, settle_one
from noisebank.vault.sqlite_vault import SqliteVault
from noisebank.vault.vault import SealedAnswer

ACCOUNT = b"a" * 32


def reserve(number: int, **changes: Any) -> Reservation:
    id = bytes([number]) * 32
    plain = Reservation(
        ACCOUNT, id, b"q" * 32, b"o" * 32, 1, Case.FIRST, ZERO_PRECISION, ZERO_PRECISION, None, ZERO_PRECISION, 1, 1
    )
    return replace(plain, **changes)


def answer(reservation: Reservation, value: int = 0) -> SealedAnswer:
    return SealedAnswer(
        reservation.id, ACCOUNT, b"q" * 32, {"value": [value, 1], "wanted": reservation.id[0]}, b"s" * 32
    )


class Ledger:
    """Notes what is published; refuses what a test says."""

    def __init__(self, *known: Reservation) -> None:
        self.published: list[Seal] = []
        self.refused: dict[bytes, NoisebankError] = {}
        self.known = {reservation.id: reservation for reservation in known}

    def publish_many(self, account: bytes, seals: Sequence[Seal]) -> list[NoisebankError | None]:
        assert account == ACCOUNT
        self.published += [seal for seal in seals if seal.id not in self.refused]
        return [self.refused.get(seal.id) for seal in seals]

    def find_reservation(self, account: bytes, id: bytes) -> Reservation | None:
        return self.known.get(id) if account == ACCOUNT else None


@pytest.fixture
def vault() -> SqliteVault:
    return SqliteVault(":memory:")


def refuse_to_draw(reservations: Sequence[Reservation]) -> list[SealedAnswer]:
    raise AssertionError(f"drawn again: {reservations}")


def test_each_is_brought_to_its_end_from_where_it_was(vault: SqliteVault) -> None:
    reserved, sealed, published = reserve(1), reserve(2), reserve(3)
    vault.seal_many([answer(sealed, 22), answer(published, 33)])
    published = replace(published, answer_digest=answer(published, 33).digest)
    ledger, drawn = Ledger(), []

    def draw(reservations: Sequence[Reservation]) -> list[SealedAnswer]:
        drawn.extend(reservations)
        return [answer(reservation, 11) for reservation in reservations]

    outcomes = settle([reserved, sealed, published], vault, ledger, draw)  # type: ignore[arg-type]
    assert outcomes == [answer(reserved, 11), answer(sealed, 22), answer(published, 33)] and drawn == [reserved]
    assert [seal.id for seal in ledger.published] == [reserved.id, sealed.id]
    assert [seal.answer_digest for seal in ledger.published] == [outcomes[0].digest, outcomes[1].digest]  # type: ignore[union-attr]
    again = settle([reserved, sealed], vault, ledger, refuse_to_draw)  # type: ignore[arg-type]
    assert again == outcomes[:2] and vault.find_answer(reserved.id) == outcomes[0]


def test_one_that_cannot_be_finished_does_not_affect_the_others(vault: SqliteVault) -> None:
    broken, refused, good = reserve(1), reserve(2), reserve(3)
    ledger, error = Ledger(), NoisebankError("no table")
    ledger.refused[refused.id] = LedgerRefused("ledger: paused")

    def draw(reservations: Sequence[Reservation]) -> list[SealedAnswer | NoisebankError]:
        return [error if each.id == broken.id else answer(each, each.id[0]) for each in reservations]

    outcomes = settle([broken, refused, good], vault, ledger, draw)  # type: ignore[arg-type]
    assert outcomes == [error, ledger.refused[refused.id], answer(good, 3)]
    assert vault.find_answer(broken.id) is None and vault.find_answer(refused.id) == answer(refused, 2)
    assert [seal.id for seal in ledger.published] == [good.id]


def test_what_was_published_and_is_lost_or_another_is_never_drawn_again(vault: SqliteVault) -> None:
    ledger = Ledger()
    lost, other = reserve(1, answer_digest=b"d" * 32), reserve(2, answer_digest=b"d" * 32)
    vault.seal_many([answer(other)])
    outcomes = settle([lost, other], vault, ledger, refuse_to_draw)  # type: ignore[arg-type]
    assert isinstance(outcomes[0], AnswerLost) and isinstance(outcomes[1], Tampered) and ledger.published == []
    with pytest.raises(AnswerLost, match="was published"):
        read_published(vault, lost.id, b"d" * 32)
    with pytest.raises(Tampered, match="not the one on the ledger"):
        settle_one(other, vault, ledger, lambda: answer(other))  # type: ignore[arg-type]
    assert read_published(vault, other.id, answer(other).digest) == answer(other)


def test_a_repeat_has_the_answer_of_what_it_repeats(vault: SqliteVault) -> None:
    first = reserve(1)
    repeat = reserve(2, case=Case.REPEAT, reused_id=first.id)
    ledger = Ledger(first)
    assert find_recorded(ledger, first) is first and find_recorded(ledger, repeat) is first  # type: ignore[arg-type]
    for nothing in (replace(repeat, reused_id=b"?" * 32), replace(repeat, reused_id=None)):
        with pytest.raises(Tampered, match="from nothing"):
            find_recorded(ledger, nothing)  # type: ignore[arg-type]
