"""Tasks of LDP-FedSGD whose devices are charged on the bank's own ledger, as JSON for the API and the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisebank.bank.bank import Bank
from noisebank.service import serializers as shown

if TYPE_CHECKING:
    from noisebank.federated.fedsgd import LearningAccount

MOST_GROUPS = 50
PROTECTS = (
    "Each device's whole record, against everybody, the server included: its one report is noisy before it leaves the "
    "device."
)
NOT_PROTECTED = (
    "what everybody together tells: the model is meant to be learned",
    "that a device took part: the ledger charges its cell",
    "a device that does not follow the protocol and sends its data in the clear",
)


def sgd_tasks(bank: Bank) -> dict[bytes, LearningAccount]:
    """Return the tasks by account id, oldest first."""
    from noisebank.federated.fedsgd import tasks

    return {account.id: account for account in tasks(bank.rooms)}


def brief(bank: Bank, account: LearningAccount) -> dict[str, Any]:
    """Return what a list shows of a task."""
    task, groups = account.task, bank.ledger.books.count(account.id)
    return {
        "id": account.id.hex(),
        "kind": "sgd",
        "name": task.name,
        "mode": "sound",
        "phase": "finished" if groups >= task.groups else "submitting",
        "rounds_planned": task.groups,
        "rounds_finished": groups,
        "members": task.devices,
        "devices": groups * task.group,
    }


def described(bank: Bank, account: LearningAccount) -> dict[str, Any]:
    """Return all that is public about a task."""
    task, books, state = account.task, bank.ledger.books, account.state
    count = books.count(account.id)
    newest = books.page(account.id, max(0, count - MOST_GROUPS), count)
    return brief(bank, account) | {
        "model": task.model,
        "target": task.design.target,
        "attributes": list(task.design.columns),
        "mechanism": task.mechanism,
        "group": task.group,
        "never_asked": task.devices - task.groups * task.group,
        "digest": task.digest.hex(),
        "privacy": {
            "mode": "sound",
            "protects": PROTECTS,
            "not_protected": list(NOT_PROTECTED),
            "epsilon_of_an_example": float(task.charge),
            "delta": 0.0,
        },
        "guarantee": task.guarantee,
        "spent": shown.amount(state.spent),
        "budget": shown.amount(state.budget),
        "groups": [
            {
                "first": run.start,
                "last": run.stop - 1,
                "charged": shown.amount(entry.wanted),
                "block": entry.block,
                "time": entry.time,
                "report": entry.answer.hex() if entry.answer else None,
            }
            for entry in reversed(newest)
            for run in entry.runs
        ],
    }


def weights(account: LearningAccount) -> dict[str, float]:
    """Return the model so far. Only for callers who may read statements: it belongs to the bank's owner."""
    from noisebank.federated.fedsgd import learned_so_far

    model: dict[str, float] = learned_so_far(account).plain()["weights"]
    return model
