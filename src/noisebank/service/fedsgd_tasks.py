"""Tasks of LDP-FedSGD whose devices are charged on the bank's own ledger, as JSON for the API and the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisebank.bank.bank import Bank

if TYPE_CHECKING:
    from noisebank.federated.fedsgd import LearningAccount

MAX_GROUPS = 50
PROTECTS = (
    "Each device's whole record, against everybody, the server included: its one report is noisy before it leaves the "
    "device."
)
NOT_PROTECTED = (
    "what everybody together tells: the model is meant to be learned",
    "that a device took part: the ledger charges its cell",
    "a device that does not follow the protocol and sends its data in the clear",
)


def list_sgd_tasks(bank: Bank) -> dict[bytes, LearningAccount]:
    """Return the tasks by account id, oldest first."""
    from noisebank.federated.fedsgd import list_tasks

    return {account.id: account for account in list_tasks(bank.parts)}


def summarize_task(bank: Bank, account: LearningAccount) -> dict[str, Any]:
    """Return what a list shows of a task."""
    task, groups = account.task, bank.ledger.books.count_reservations(account.id)
    return {
        "id": account.id.hex(),
        "kind": "sgd",
        "name": task.name,
        "mode": "sound",
        "phase": "finished" if groups >= task.group_count else "submitting",
        "rounds_planned": task.group_count,
        "rounds_finished": groups,
        "members": task.devices,
        "devices": groups * task.group,
    }


def describe_task(bank: Bank, account: LearningAccount) -> dict[str, Any]:
    """Return all that is public about a task."""
    task, books, state = account.task, bank.ledger.books, account.state
    count = books.count_reservations(account.id)
    newest = books.page_reservations(account.id, max(0, count - MAX_GROUPS), count)
    return summarize_task(bank, account) | {
        "model": task.model,
        "target": task.design.target,
        "attributes": list(task.design.column_names),
        "mechanism": task.mechanism,
        "group": task.group,
        "never_asked": task.devices - task.group_count * task.group,
        "digest": task.digest.hex(),
        "privacy": {
            "mode": "sound",
            "protects": PROTECTS,
            "not_protected": list(NOT_PROTECTED),
            "epsilon_of_an_example": float(task.device_charge),
            "delta": 0.0,
        },
        "guarantee": task.guarantee,
        "spent": state.spent.to_decimal(),
        "budget": state.budget.to_decimal(),
        "groups": [
            {
                "first": run.start,
                "last": run.stop - 1,
                "charged": entry.target.to_decimal(),
                "block": entry.block,
                "time": entry.time,
                "report": entry.answer_digest.hex() if entry.answer_digest else None,
            }
            for entry in reversed(newest)
            for run in entry.runs
        ],
    }


def read_weights(account: LearningAccount) -> dict[str, float]:
    """Return the model so far. Only for callers who may read statements: it belongs to the bank's owner."""
    from noisebank.federated.fedsgd import rebuild_model

    model: dict[str, float] = rebuild_model(account).to_json()["weights"]
    return model
