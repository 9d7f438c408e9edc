"""Whether the answer to a relative request is seen to be as close as requested, and what half the floor would cost."""

from __future__ import annotations

from noisebank.account.answers import Answer
from noisebank.account.context import AccountContext
from noisebank.account.quoting import quote_question
from noisebank.core.errors import NoisebankError
from noisebank.core.estimates import Verdict
from noisebank.planning.pricing import AccuracyTarget
from noisebank.planning.relative import RelativeTarget
from noisebank.queries.query import Question


def judge_answer(
    context: AccountContext, answer: Answer, question: Question, accuracy: AccuracyTarget
) -> Verdict | None:
    """Returns the verdict if the request was relative. The next price is looked up whatever the verdict is."""
    if not isinstance(accuracy, RelativeTarget):
        return None
    try:
        next_cost = quote_question(context, question, accuracy.with_half_floor(), plainly=True).cost
    except NoisebankError:
        next_cost = None
    plain = answer.inferred is None  # an earlier one under the same key may come from a cube: no promise for it
    reached = plain and accuracy.is_reached(answer.exact, answer.stddev)
    relative, confidence = float(accuracy.relative), float(accuracy.confidence)
    return Verdict(relative, confidence, float(accuracy.floor or 0), reached, next_cost)
