"""A crowdsourced learning task as tables and as JSON, for `noisebank learn status`."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from noisebank.cli.render import out, show_facts
from noisebank.federated.blockfl.books import TaskBooks
from noisebank.federated.blockfl.device import measure_accuracy
from noisebank.federated.blockfl.examples import read_examples
from noisebank.federated.blockfl.guarantee import describe_guarantee
from noisebank.federated.blockfl.identifiers import format_cid
from noisebank.federated.blockfl.member import load_global_model
from noisebank.federated.blockfl.store import ContentStore
from noisebank.federated.blockfl.terms import read_terms


def task_to_json(books: TaskBooks, store: ContentStore, test: str | None = None) -> dict[str, Any]:
    """Returns everything about a task as a JSON object; with `test` also the accuracy of each round's model."""
    posted = books.setup
    content = store.get(posted.terms_digest)
    terms = read_terms(content) if content else None
    rounds = []
    examples = read_examples(test, terms.shape.side) if test and terms else None
    for round in books.rounds:
        row: dict[str, Any] = {
            "round": round.number,
            "model": format_cid(round.model_digest) if round.model_digest else None,
            "submissions": [
                {"member": sent.member, "model": format_cid(sent.digest), "stored": store.get(sent.digest) is not None}
                for sent in round.submissions
            ],
            "verdicts": {judged.member: judged.verdict.name.lower() for judged in round.verdicts},
            "leaders": [{"leader": entry.leader, "fate": entry.outcome} for entry in round.proposals],
            "silent_leaders": round.silent_leaders,
            "drawings": len(round.drawings),
            "seats": round.drawings[-1].total_seats if round.drawings else 0,
        }
        if examples is not None and terms is not None and round.model_digest is not None:
            weights = load_global_model(books, store, round.number, terms.shape.weight_count).to_floats()
            row["accuracy"] = measure_accuracy(terms, weights, examples)
            row["accuracy_with_noise"] = measure_accuracy(terms, weights, examples, noisy=True)
        rounds.append(row)
    return {
        "task": posted.task_id.hex(), "phase": books.phase.name.lower(), "poster": posted.poster,
        "name": terms.name if terms else None, "rounds_planned": posted.round_count, "byzantine": posted.byzantine,
        "reputation": "as printed" if posted.uses_printed_rule else "repaired",
        "privacy": describe_guarantee(terms, posted.round_count).to_json() if terms else None,
        "members": {
            address: {
                "joined": member.public_key is not None, "coins": member.coins, "reputation": member.reputation,
                "reward": member.reward, "last_round": member.last_round,
            }
            for address, member in books.members.items()
        },
        "rounds": rounds,
    }  # fmt: skip


def show_task(task: dict[str, Any]) -> None:
    """Prints such an object as tables."""
    show_facts(f"Task {task['task'][:16]}", [
        ("name", str(task["name"])), ("phase", task["phase"]), ("reputation", task["reputation"]),
        ("rounds", f"{sum(row['model'] is not None for row in task['rounds'])} of {task['rounds_planned']}"),
        ("privacy mode", task["privacy"]["mode"] if task["privacy"] else "unknown"),
    ])  # fmt: skip
    if task["privacy"]:
        show_facts("", [("protects", task["privacy"]["protects"]),
                   *(("not protected", line) for line in task["privacy"]["not_protected"])])  # fmt: skip
    table = Table(title="Rounds", title_justify="left")
    for name in ("round", "submitted", "accepted", "leaders", "accuracy", "model"):
        table.add_column(name, justify="left" if name in ("leaders", "model") else "right")
    for row in task["rounds"]:
        leaders = ", ".join(f"{leader['leader'][:8]} {leader['fate']}" for leader in row["leaders"])
        accepted = sum(verdict == "accepted" for verdict in row["verdicts"].values())
        table.add_row(
            str(row["round"]), str(len(row["submissions"])), str(accepted), leaders,
            f"{row['accuracy']:.3f}" if "accuracy" in row else "", (row["model"] or "")[:20],
        )  # fmt: skip
    out.print(table)
    members = Table(title="Members", title_justify="left")
    for name in ("member", "coins", "reputation", "reward", "verdicts by round"):
        members.add_column(name, justify="left" if name in ("member", "verdicts by round") else "right")
    for address, member in task["members"].items():
        verdicts = " ".join(row["verdicts"].get(address, "-") for row in task["rounds"] if row["model"])
        members.add_row(address, str(member["coins"]), str(member["reputation"]), str(member["reward"]), verdicts)
    out.print(members)
