"""Released answers of an account, for tests that ask for a precision as the ledger counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.internals import BatchItem, answer_batch

if TYPE_CHECKING:
    from noisebank import Account
    from support.internals import AccuracyTarget


def release_answer(
    account: Account, sql: str, accuracy: AccuracyTarget, key: str | None = None, analyst: str = "owner"
) -> Any:
    """The answer to one question without cubes, as the path releases it."""
    item = BatchItem([(account.parse(sql), accuracy)], None, key, analyst, plainly=True)
    answer_batch(account.context, [item])
    if item.error is not None:
        raise item.error
    return item.answers[0]
