"""Compares a checked history with evidence from outside: pinned heads, receipts, anchors, opened records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from noisebank.core.digests import answer_digest
from noisebank.core.errors import Tampered
from noisebank.ledger.anchors import Anchor
from noisebank.ledger.books import Books
from noisebank.privacy.calibration import MAX_DRAWS
from noisebank.verifier.openings import Opened, check_openings
from noisebank.verifier.report import SUMS_ONLY


class History(Protocol):
    """A ledger's history whose own consistency has been checked."""

    @property
    def books(self) -> Books:
        """Accounts, reservations, records."""
        ...

    @property
    def contract(self) -> str:
        """The ledger's address."""
        ...

    @property
    def chain_id(self) -> int:
        """The chain's id."""
        ...

    @property
    def newest(self) -> int:
        """The newest block's number."""
        ...

    def digest(self, number: int) -> bytes | None:
        """Returns a block's digest; None if there is no such block."""
        ...

    def find(self, digest: bytes) -> int | None:
        """Returns the number of the block with this digest; None if there is none."""
        ...


@dataclass(slots=True)
class Compared:
    """What the history was compared with so far. Each method raises `Tampered` if the history contradicts it."""

    with_what: list[str] = field(default_factory=list)
    level: str = SUMS_ONLY
    pinned: int = -1
    """The newest block that something from outside confirms."""
    uncounted: set[bytes] = field(default_factory=set)
    """Accounts whose number of noise draws is not known."""

    def head(self, text: str, history: History) -> None:
        """Compares with a pinned head: the digest of a block that was the newest at some time."""
        try:
            digest = bytes.fromhex(text.strip().lower().removeprefix("0x"))
        except ValueError:
            digest = b""
        number = history.find(digest)
        if number is None:
            raise Tampered(
                f"the pinned head {text.strip()[:12]} is not in this history: it was cut, replaced by an old copy, or "
                "rewritten"
            )
        self.pinned = max(self.pinned, number)
        self.with_what.append(f"a pinned head, block {number} ({history.newest - number} blocks before the end)")

    def receipt(self, receipt: dict[str, Any], history: History) -> None:
        """Compares with an analyst's receipt."""
        try:
            id, salt = bytes.fromhex(receipt["id"]), bytes.fromhex(receipt["salt"])
            block, digest, body = int(receipt["block"]), bytes.fromhex(receipt["block_digest"]), receipt["answer"]
            chain, contract, account = receipt["chain_id"], receipt["contract"], receipt["account"]
            published = answer_digest(salt, body)
            subject = (body["id"], body["account"])
            owner_of_id = bytes.fromhex(account)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            raise Tampered("a receipt is malformed") from None
        name = f"the receipt {id.hex()[:12]}"
        if (chain, contract) != (history.chain_id, history.contract):
            raise Tampered(f"{name} is of another ledger")
        if history.digest(block) != digest:
            raise Tampered(
                f"{name} names block {block}, which is not in this history: it was cut, replaced or rewritten"
            )
        reservation = history.books.reservation(owner_of_id, id)
        if reservation is None or subject != (id.hex(), account):
            raise Tampered(f"{name} is for a reservation that is not on this ledger")
        if reservation.answer != published or reservation.published_in != block:
            raise Tampered(f"{name} shows another answer than the one published in block {block}")
        self.pinned = max(self.pinned, block)
        self.with_what.append(f"the receipt {id.hex()[:12]}, published in block {block}")

    def anchors(self, found: Iterable[Anchor], where: str, history: History) -> None:
        """Compares with heads that are anchored on another chain; there must be at least one."""
        anchors = list(found)
        if not anchors:
            raise Tampered(f"{where} holds no anchor of this journal's sealer")
        for anchor in anchors:
            if history.digest(anchor.number) != anchor.head:
                raise Tampered(
                    f"block {anchor.number} was anchored on {where} (transaction {anchor.transaction[:12]}) and "
                    "is not in this history: it was cut, replaced by an old copy, or rewritten"
                )
            self.pinned = max(self.pinned, anchor.number)
        newest = max(anchor.number for anchor in anchors)
        self.with_what.append(f"{len(anchors)} anchors on {where}, the newest of block {newest}")

    def openings(self, openings: Sequence[dict[str, Any]], history: History) -> None:
        """Compares with records that the owner has opened, and recomputes them from the policy."""
        levels = []
        for fields in openings:
            opened = check_openings(fields, history.books)
            levels.append(f"{opened.opened} of {opened.records} records opened in {opened.account.hex()[:12]}")
            self.with_what.append(f"opened records: {levels[-1]}, recomputed from the policy; {_drawn(opened)}")
            self.uncounted.discard(opened.account)
            if opened.uncounted:
                self.uncounted.add(opened.account)
        if levels:
            self.level = "; ".join(levels)


def _drawn(opened: Opened) -> str:
    """Describes how many noise draws one person can affect."""
    besides = f", besides {opened.uncounted} measurements of earlier versions" if opened.uncounted else ""
    return f"{opened.draws:,} draws that one person can touch, of {MAX_DRAWS:,}{besides}"
