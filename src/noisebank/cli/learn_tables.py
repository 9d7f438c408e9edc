"""A crowdsourced learning task as tables and as JSON, for `noisebank learn status`."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from noisebank.cli.render import facts, out
from noisebank.federated.blockfl.books import TaskBooks
from noisebank.federated.blockfl.device import accuracy
from noisebank.federated.blockfl.examples import read_examples
from noisebank.federated.blockfl.guarantee import promised
from noisebank.federated.blockfl.identifiers import identifier
from noisebank.federated.blockfl.member import global_model
from noisebank.federated.blockfl.store import Store
from noisebank.federated.blockfl.terms import read_terms


def plain_task(books: TaskBooks, store: Store, test: str | None = None) -> dict[str, Any]:
    """Returns everything about a task as a JSON object; with `test` also the accuracy of each round's model."""
    posted = books.posted
    content = store.get(posted.terms)
    terms = read_terms(content) if content else None
    rounds = []
    examples = read_examples(test, terms.shape.side) if test and terms else None
    for round in books.rounds:
        row: dict[str, Any] = {
            "round": round.number,
            "model": identifier(round.model) if round.model else None,
            "submissions": [
                {"member": sent.member, "model": identifier(sent.digest), "stored": store.get(sent.digest) is not None}
                for sent in round.submissions
            ],
            "verdicts": {judged.member: judged.verdict.name.lower() for judged in round.judged},
            "leaders": [{"leader": entry.leader, "fate": entry.fate} for entry in round.proposals],
            "silent_leaders": round.silent_leaders,
            "drawings": len(round.drawings),
            "seats": round.drawings[-1].seats if round.drawings else 0,
        }
        if examples is not None and terms is not None and round.model is not None:
            weights = global_model(books, store, round.number, terms.shape.count).floats()
            row["accuracy"] = accuracy(terms, weights, examples)
            row["accuracy_with_noise"] = accuracy(terms, weights, examples, noisy=True)
        rounds.append(row)
    return {
        "task": posted.task.hex(), "phase": books.phase.name.lower(), "poster": posted.poster,
        "name": terms.name if terms else None, "rounds_planned": posted.rounds, "byzantine": posted.byzantine,
        "reputation": "as printed" if posted.printed else "repaired",
        "privacy": promised(terms, posted.rounds).plain() if terms else None,
        "members": {
            address: {
                "joined": member.key is not None, "coins": member.coins, "reputation": member.reputation,
                "reward": member.reward, "last_round": member.last,
            }
            for address, member in books.members.items()
        },
        "rounds": rounds,
    }  # fmt: skip


def show_task(plain: dict[str, Any]) -> None:
    """Prints such an object as tables."""
    facts(f"Task {plain['task'][:16]}", [
        ("name", str(plain["name"])), ("phase", plain["phase"]), ("reputation", plain["reputation"]),
        ("rounds", f"{sum(row['model'] is not None for row in plain['rounds'])} of {plain['rounds_planned']}"),
        ("privacy mode", plain["privacy"]["mode"] if plain["privacy"] else "unknown"),
    ])  # fmt: skip
    if plain["privacy"]:
        facts("", [("protects", plain["privacy"]["protects"]),
                   *(("not protected", line) for line in plain["privacy"]["not_protected"])])  # fmt: skip
    table = Table(title="Rounds", title_justify="left")
    for name in ("round", "submitted", "accepted", "leaders", "accuracy", "model"):
        table.add_column(name, justify="left" if name in ("leaders", "model") else "right")
    for row in plain["rounds"]:
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
    for address, member in plain["members"].items():
        verdicts = " ".join(row["verdicts"].get(address, "-") for row in plain["rounds"] if row["model"])
        members.add_row(address, str(member["coins"]), str(member["reputation"]), str(member["reward"]), verdicts)
    out.print(members)
