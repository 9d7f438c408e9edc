"""Compares a checked history with evidence from outside: pinned heads, receipts, anchors, opened records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from noisebank.core.digests import digest_answer
from noisebank.core.errors import Tampered
from noisebank.core.extras import needs_extra
from noisebank.core.records import MAX_DRAWS
from noisebank.ledger.anchors import Anchor
from noisebank.ledger.books import Books
from noisebank.verifier.report import SUMS_ONLY

if TYPE_CHECKING:
    from noisebank.verifier.openings import CheckedOpenings


class ComparableHistory(Protocol):
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
    def newest_block(self) -> int:
        """The newest block's number."""
        ...

    def block_digest(self, number: int) -> bytes | None:
        """Returns a block's digest; None if there is no such block."""
        ...

    def find_block(self, digest: bytes) -> int | None:
        """Returns the number of the block with this digest; None if there is none."""
        ...


@dataclass(slots=True)
class Comparison:
    """What the history was compared with so far. Each method raises `Tampered` if the history contradicts it."""

    compared_with: list[str] = field(default_factory=list)
    level: str = SUMS_ONLY
    pinned_block: int = -1
    """The newest block that something from outside confirms."""
    uncounted_accounts: set[bytes] = field(default_factory=set)
    """Accounts whose number of noise draws is not known."""

    def compare_head(self, text: str, history: ComparableHistory) -> None:
        """Compares with a pinned head: the digest of a block that was the newest at some time."""
        try:
            digest = bytes.fromhex(text.strip().lower().removeprefix("0x"))
        except ValueError:
            digest = b""
        number = history.find_block(digest)
        if number is None:
            raise Tampered(
                f"the pinned head {text.strip()[:12]} is not in this history: it was cut, replaced by an old copy, or "
                "rewritten"
            )
        self.pinned_block = max(self.pinned_block, number)
        self.compared_with.append(
            f"a pinned head, block {number} ({history.newest_block - number} blocks before the end)"
        )

    def compare_receipt(self, receipt: dict[str, Any], history: ComparableHistory) -> None:
        """Compares with an analyst's receipt."""
        try:
            id, salt = bytes.fromhex(receipt["id"]), bytes.fromhex(receipt["salt"])
            block, digest, body = int(receipt["block"]), bytes.fromhex(receipt["block_digest"]), receipt["answer"]
            chain, contract, account = receipt["chain_id"], receipt["contract"], receipt["account"]
            published = digest_answer(salt, body)
            subject = (body["id"], body["account"])
            owner_of_id = bytes.fromhex(account)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            raise Tampered("a receipt is malformed") from None
        name = f"the receipt {id.hex()[:12]}"
        if (chain, contract) != (history.chain_id, history.contract):
            raise Tampered(f"{name} is of another ledger")
        if history.block_digest(block) != digest:
            raise Tampered(
                f"{name} names block {block}, which is not in this history: it was cut, replaced or rewritten"
            )
        reservation = history.books.find_reservation(owner_of_id, id)
        if reservation is None or subject != (id.hex(), account):
            raise Tampered(f"{name} is for a reservation that is not on this ledger")
        if reservation.answer_digest != published or reservation.published_block != block:
            raise Tampered(f"{name} shows another answer than the one published in block {block}")
        self.pinned_block = max(self.pinned_block, block)
        self.compared_with.append(f"the receipt {id.hex()[:12]}, published in block {block}")

    def compare_anchors(self, candidates: Iterable[Anchor], chain_name: str, history: ComparableHistory) -> None:
        """Compares with heads that are anchored on another chain; there must be at least one."""
        anchors = list(candidates)
        if not anchors:
            raise Tampered(f"{chain_name} holds no anchor of this journal's sealer")
        for anchor in anchors:
            if history.block_digest(anchor.number) != anchor.head:
                raise Tampered(
                    f"block {anchor.number} was anchored on {chain_name} (transaction {anchor.transaction[:12]}) and "
                    "is not in this history: it was cut, replaced by an old copy, or rewritten"
                )
            self.pinned_block = max(self.pinned_block, anchor.number)
        newest = max(anchor.number for anchor in anchors)
        self.compared_with.append(f"{len(anchors)} anchors on {chain_name}, the newest of block {newest}")

    def compare_openings(self, openings: Sequence[dict[str, Any]], history: ComparableHistory) -> None:
        """Compares with records that the owner has opened, and recomputes them from the policy."""
        if not openings:
            return
        with needs_extra("openings", "recomputing opened records"):  # SQL, planning, numpy: nothing else needs them
            from noisebank.verifier.openings import check_openings
        levels = []
        for fields in openings:
            opened = check_openings(fields, history.books)
            levels.append(
                f"{opened.opened_count} of {opened.record_count} records opened in {opened.account.hex()[:12]}"
            )
            self.compared_with.append(
                f"opened records: {levels[-1]}, recomputed from the policy; {_describe_draws(opened)}"
            )
            self.uncounted_accounts.discard(opened.account)
            if opened.uncounted_measurements:
                self.uncounted_accounts.add(opened.account)
        self.level = "; ".join(levels)


def _describe_draws(opened: CheckedOpenings) -> str:
    """Describes how many noise draws one person can affect."""
    besides = (
        f", besides {opened.uncounted_measurements} measurements of earlier versions"
        if opened.uncounted_measurements
        else ""
    )
    return f"{opened.draw_count:,} draws that one person can touch, of {MAX_DRAWS:,}{besides}"
