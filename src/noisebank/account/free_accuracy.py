"""The best accuracy that costs nothing: what is paid for already, within the analyst's limit."""

from __future__ import annotations

from noisebank.account.context import AccountContext
from noisebank.core.asks import OWNER
from noisebank.core.units import ZERO_PRECISION, Precision, floor_to_ladder
from noisebank.planning.pricing import AccuracyTarget, PrecisionTarget
from noisebank.queries.query import Question


def find_best_free(context: AccountContext, question: Question, target: Precision, analyst: str) -> Precision:
    """Returns the best precision that costs the account nothing and that the analyst's view has room for.

    Never less than the target. Between two recorded precisions the answer is blurred, as always.
    """
    salted = context.secrets.salted_query(question.query)
    records = context.ledger.list_records(context.id, salted)
    best = records[-1].precision if records else ZERO_PRECISION
    if best <= target:
        return target
    if analyst == OWNER:
        return best
    view = context.view_of(analyst)
    delivered = context.ledger.books.delivered_precision(context.id, context.secrets.analyst_digest(analyst), salted)
    room = delivered + Precision(max(0, view.limit.units - view.used.units))
    return max(target, min(best, floor_to_ladder(room)))


def improve_accuracy(
    context: AccountContext, question: Question, accuracy: AccuracyTarget, key: str | None, analyst: str
) -> AccuracyTarget:
    """Returns the best accuracy that is free. A retry gets what its key got before, also if better is free now."""
    target = context.target_precision(question, accuracy)
    before = None if key is None else context.vault.find_request_by_key(context.id, analyst, key)
    wanted = None if before is None else before.body.get("wanted")
    if isinstance(wanted, int) and wanted >= target.units:  # several questions have a list
        better = Precision(wanted)
    else:
        better = find_best_free(context, question, target, analyst)
    return accuracy if better == target else PrecisionTarget(better)
