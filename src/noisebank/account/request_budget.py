"""The budget that shares are of: the one when a request was made. A retry with its key is about the same budget."""

from __future__ import annotations

from noisebank.account.context import AccountContext
from noisebank.account.requests import name_look
from noisebank.core.asks import Ask
from noisebank.core.units import Precision

RELATED = ("spend", "within", "relative")
"""Options whose target precision may follow from the budget: a share of it, and looks, which cost a part of it."""


def find_budget(context: AccountContext, request: Ask) -> Precision:
    """Returns the budget that a request is about: that of the first request with its key, or the present one.

    Otherwise a retry after a raise would be another request: refused though it was answered, or charged again.
    """
    budgets, present = context.ledger.books.get_budgets(context.id), context.state.budget
    has_changed = not present == budgets.opened == budgets.largest
    if has_changed and isinstance(request.key, str):
        for key in (name_look(request.key, 1), request.key):  # what ended at a look has no request with the key itself
            before = context.vault.find_request_by_key(context.id, request.analyst, key)
            if before is not None and "budget" in before.body:
                return Precision(before.body["budget"])
    return present
