"""How far an account's budget may be raised, for an epsilon that the owner says."""

from __future__ import annotations

from fractions import Fraction

from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision
from noisebank.ledger.books import Budgets
from noisebank.ledger.protocol import AccountState
from noisebank.privacy.calibration import budget_precision
from noisebank.privacy.odometer import raised_epsilon, raised_precision


def grant_raise(state: AccountState, budgets: Budgets, epsilon: Fraction, delta: Fraction) -> Precision:
    """Returns the budget that a raise to `epsilon` may grant: less than at opening, once answers were given."""
    nominal, fixed = budget_precision(epsilon, delta), budgets.fixed
    if not state.measurements or nominal <= fixed:  # up to what was fixed before any answer, nothing is new
        return nominal
    granted = max(fixed, raised_precision(fixed, epsilon, delta))
    if granted <= state.budget:
        least = float(raised_epsilon(fixed, max(fixed, state.budget), delta))
        raise BadRequest("epsilon", float(epsilon), f"is no raise: answers were given, so say more than {least:.6g}")
    return granted
