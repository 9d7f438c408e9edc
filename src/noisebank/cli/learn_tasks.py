"""`noisebank learn post`, `join`, `aggregate`, `status` and `verify`: crowdsourced learning with books on a chain."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.learn import learn
from noisebank.cli.learn_options import (
    at_contract,
    in_store,
    member_keys,
    note,
    opened_registry,
    opened_store,
    plain_guarantee,
    task_id,
    to_chain,
    with_keys,
)
from noisebank.cli.options import as_json, guarded
from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.federated.blockfl.books import TaskBooks
    from noisebank.federated.blockfl.device import Examples, Trainer
    from noisebank.federated.blockfl.terms import Terms

on_task = click.argument("task", required=False)


@learn.command("post")
@to_chain
@at_contract
@in_store
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The poster's key.")
@click.option("--member", "members", multiple=True, required=True, metavar="ADDRESS[:COINS]",
              help="Who may join; 5 coins unless said. Repeat it.")  # fmt: skip
@click.option("--name", default="task", show_default=True, help="What it is about.")
@click.option("--network", type=click.Choice(["paper", "digits", "small"]), default="digits", show_default=True,
              help="paper: P4's, for 28 x 28 images; digits, small: for 8 x 8.")  # fmt: skip
@click.option("--mode", type=click.Choice(["paper", "sound", "none"]), default="paper", show_default=True,
              help="paper: noise on features, protects little. sound: DP-SGD, charged on the ledger.")  # fmt: skip
@click.option("--norm", type=click.Choice(["bounded", "batch"]), default="bounded", show_default=True,
              help="With paper and none: the paper's normalisation, or batch normalisation.")  # fmt: skip
@click.option("--epsilon", "-e", default="2", show_default=True,
              help="paper: of one feature in one pass. sound: of an example over the whole task.")  # fmt: skip
@click.option("--delta", "-d", default="1e-5", show_default=True, help="With sound.")
@click.option("--batch", type=int, default=64, show_default=True, help="Examples of a batch.")
@click.option("--epochs", type=int, default=2, show_default=True, help="Passes over a member's own data in a round.")
@click.option("--rate", default="0.05", show_default=True, help="Learning rate.")
@click.option("--momentum", default="0.9", show_default=True, help="Of gradient descent.")
@click.option("--clip", default="5", show_default=True, help="Norm of a gradient; with sound, of each example's.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Global epochs.")
@click.option("--byzantine", "-f", type=int, default=1, show_default=True, help="So many members may be malicious.")
@click.option("--seats", type=int, default=20, show_default=True, help="Expected seats of a committee.")
@click.option("--patience", type=int, default=60, show_default=True, help="Seconds that a phase waits for the late.")
@click.option("--stake", type=int, default=0, show_default=True, help="Wei that joining costs.")
@click.option("--average", type=int, default=0, show_default=True,
              help="Compare reputations with this; 0: with the average of all members.")  # fmt: skip
@click.option("--printed", is_flag=True, help="Reputation as printed in the paper, not repaired.")
@click.option("--ledger", metavar="ADDRESS", help="With sound: the budget ledger; not needed on a chain of one's own.")
@click.option("--deploy", is_flag=True, help="Put the registry on the chain first; the key pays.")
@click.option("--wait", type=float, default=120.0, show_default=True, help="Seconds to wait for members to join.")
@as_json
@guarded
def post(
    rpc: str, contract: str | None, store: Path, key: Path, members: tuple[str, ...], network: str, ledger: str | None,
    deploy: bool, wait: float, as_json: bool, average: int, **said: Any,
) -> None:  # fmt: skip
    """Post a task with a random initial model, wait for its members, begin the first round.

    The task's id is printed on standard error as soon as it is posted: members join with it.

    Example:  noisebank learn post --rpc http://127.0.0.1:7545 --key poster.key --member 0x... --rounds 3
    """
    from noisebank.cli import render as console
    from noisebank.federated.blockfl.identifiers import identifier
    from noisebank.federated.blockfl.network import SHAPES
    from noisebank.federated.blockfl.registry import deploy_registry, own_contract
    from noisebank.federated.blockfl.task_posting import Rules, post_task
    from noisebank.federated.blockfl.terms import Terms
    from noisebank.ledger.signing import Key

    poster = Key.load(key)
    if deploy:
        contract = deploy_registry(rpc, poster)
    registry = opened_registry(rpc, contract)
    if said["mode"] == "sound":
        said["norm"] = "fixed"
        ledger = (ledger or own_contract(registry.node, "budget_ledger")).lower()
    rules = Rules(
        said.pop("rounds"), said.pop("byzantine"), said.pop("seats"), said.pop("patience"), average,
        said.pop("printed"), said.pop("stake"),
    )  # fmt: skip
    terms = Terms(shape=SHAPES[network], ledger=ledger if said["mode"] == "sound" and ledger else "", **said)
    admitted = [_member(text) for text in members]
    task, secret = post_task(registry, opened_store(store), poster, terms, rules, admitted)
    note(f"task {task.hex()} on {registry.contract}")
    joined = 0
    deadline = time.monotonic() + wait
    with console.progress("joining", quiet=as_json) as moved:
        while joined < len(admitted) and time.monotonic() < deadline:
            joined = sum(member.key is not None for member in registry.books(task).members.values())
            moved(joined, len(admitted))
            time.sleep(0.3)
    registry.send(poster, "begin", task, secret)
    posted = registry.books(task).posted
    facts = {
        "task": task.hex(), "contract": registry.contract, "joined": joined, "model": identifier(posted.model),
        "terms": identifier(posted.terms), "guarantee": plain_guarantee(terms, rules.rounds),
    }  # fmt: skip
    if as_json:
        console.show_json(facts)
        return
    console.facts("Begun", [(name, str(value)) for name, value in facts.items() if name != "guarantee"])
    _show_guarantee(facts["guarantee"])


@learn.command("join")
@on_task
@to_chain
@at_contract
@in_store
@with_keys
@click.option("--data", required=True, metavar="FILE.npz",
              help="images and labels of this member; or digits:2/10, mnist:2/10.")  # fmt: skip
@click.option("--edge", metavar="HOST:PORT", help="The edge worker; not needed in a sound task.")
@click.option("--budget", metavar="E", help="sound: epsilon of this member for all tasks together; set once.")
@click.option("--budget-delta", metavar="D", default="1e-4", show_default=True,
              help="With --budget: delta of this member for all tasks together.")  # fmt: skip
@click.option("--wait", type=float, default=3600.0, show_default=True, help="Give up if nothing moves for so long.")
@as_json
@guarded
def join(
    task: str | None, rpc: str, contract: str | None, store: Path, keys: Path, data: str, edge: str | None,
    budget: str | None, budget_delta: str, wait: float, as_json: bool,
) -> None:  # fmt: skip
    """Take part in TASK until it is finished: train, sign, submit; draw lots, lead or vote.

    Says first what the task's privacy mode protects and what not. May be killed and started again at any time.

    Example:  noisebank learn join --rpc http://127.0.0.1:7545 --keys phone-7 --data digits:7/10 --edge 127.0.0.1:7600
    """
    from noisebank.cli import render as console
    from noisebank.federated.blockfl.device import SplitTrainer
    from noisebank.federated.blockfl.examples import read_examples
    from noisebank.federated.blockfl.member import Member
    from noisebank.federated.blockfl.member_book import MemberBook

    registry = opened_registry(rpc, contract)
    id = task_id(registry, task)
    key, lot = member_keys(keys)
    book = MemberBook(keys)

    def trainer(terms: Terms, books: TaskBooks) -> Trainer:
        if terms.mode == "sound":
            from noisebank.federated.blockfl.dp_sgd import SoundTrainer

            book.keep_size(id, len(examples))
            return SoundTrainer(terms, examples, books.posted.rounds)
        if edge is None:
            raise BadRequest("edge", "nothing", "name an edge worker with --edge")
        return SplitTrainer(terms, examples, edge)

    def receipt(terms: Terms, books: TaskBooks) -> bytes:
        return _charged(rpc, terms, books, key, keys, None if budget is None else (budget, budget_delta))

    with console.progress("training", quiet=as_json or not sys.stderr.isatty()) as moved:
        member = Member(registry, opened_store(store), key, lot, id, trainer, note, moved, receipt, book)
        terms = member.terms(registry.books(id))
        if terms.mode != "sound" and (budget is not None or book.budget is not None):
            raise BadRequest("task", terms.mode, "this member has a budget, and only a sound task is charged to it")
        # Read now: a file that cannot be used must be refused before anything is joined or charged.
        examples: Examples = read_examples(data, terms.shape.side)
        promise = plain_guarantee(terms, registry.books(id).posted.rounds)
        note(f"{terms.mode} mode protects {promise['protects']}")
        for line in promise["not_protected"]:
            note(f"  not protected: {line}")
        done = member.run(wait)
    standing = registry.books(id).members[key.address]
    facts = {
        "address": key.address, "submitted": done.submitted, "led": done.led, "seats_voted": done.seats,
        "opposed": done.opposed, "reputation": standing.reputation, "reward": standing.reward,
        "seconds_training": done.seconds_training,
    }  # fmt: skip
    console.show_json(facts) if as_json else console.facts("Done", [(k, str(v)) for k, v in facts.items()])


@learn.command("aggregate")
@on_task
@to_chain
@at_contract
@in_store
@with_keys
@as_json
@guarded
def aggregate(task: str | None, rpc: str, contract: str | None, store: Path, keys: Path, as_json: bool) -> None:
    """Do what is due in TASK now without training: draw a lot, propose the average, vote, end a wait.

    `learn join` does all of it by itself; this is for a member whose device is away.

    Example:  noisebank learn aggregate --rpc http://127.0.0.1:7545 --keys phone-7
    """
    from noisebank.cli import render as console
    from noisebank.federated.blockfl.books import Phase
    from noisebank.federated.blockfl.member import Duties

    registry = opened_registry(rpc, contract)
    id = task_id(registry, task)
    duties = Duties(registry, opened_store(store), *member_keys(keys), id, note)
    acted = duties.act(registry.stage(id))
    stage = registry.stage(id)
    facts: dict[str, Any] = {"acted": acted, "phase": stage.phase.name.lower(), "round": stage.round}
    if stage.phase in (Phase.DRAWING, Phase.VOTING):
        judgement = duties.judgement(stage.round)
        entries = registry.books(id).round.entries
        facts["verdicts"] = {e.member: v.name.lower() for e, v in zip(entries, judgement.verdicts, strict=True)}
    console.show_json(facts) if as_json else console.facts("Task", [(k, str(v)) for k, v in facts.items()])


@learn.command("status")
@on_task
@to_chain
@at_contract
@in_store
@click.option("--test", "test", metavar="FILE.npz", help="Also the accuracy of each round's model on these examples.")
@as_json
@guarded
def status(task: str | None, rpc: str, contract: str | None, store: Path, test: str | None, as_json: bool) -> None:
    """Show a task: its rounds, submissions with verdicts, leaders, reputations and rewards, and what it promises.

    Example:  noisebank learn status --rpc http://127.0.0.1:7545 --test digits:test
    """
    from noisebank.cli import render as console
    from noisebank.cli.learn_tables import plain_task, show_task

    registry = opened_registry(rpc, contract)
    plain = plain_task(registry.books(task_id(registry, task)), opened_store(store), test)
    console.show_json(plain) if as_json else show_task(plain)


@learn.command("verify")
@on_task
@to_chain
@at_contract
@in_store
@click.option("--round", "number", type=int, help="Only this round.")
@as_json
@guarded
def verify(task: str | None, rpc: str, contract: str | None, store: Path, number: int | None, as_json: bool) -> None:
    """Re-run a task's rounds from the ledger and the stored models: everything must come out the same, bit for bit.

    Verdicts, averages, lots, votes, reputations, rewards; in a sound task also that every model was paid for first.

    Example:  noisebank learn verify --rpc http://127.0.0.1:7545 --round 2
    """
    from noisebank.cli import render as console
    from noisebank.federated.blockfl.terms import read_terms
    from noisebank.federated.blockfl.verification import verify_task

    registry, models = opened_registry(rpc, contract), opened_store(store)

    def receipts(books: TaskBooks) -> list[str]:
        from noisebank.federated.blockfl.charges import unpaid

        content = models.get(books.posted.terms)
        return unpaid(registry.node, read_terms(content), books) if content else ["the terms are not stored here"]

    with console.progress("verifying", quiet=as_json) as moved:
        report = verify_task(registry, models, task_id(registry, task), number, moved, receipts)
    if as_json:
        console.show_json(report.plain())
    else:
        console.facts("Verified" if report.passed else "WRONG", [
            (f"round {row.number}", "; ".join(row.wrong) or f"as recorded: {row.model}") for row in report.rounds
        ] + [("", line) for line in report.wrong])  # fmt: skip
    sys.exit(0 if report.passed else 1)


def _charged(rpc: str, terms: Terms, books: TaskBooks, key: Any, folder: Path, budget: tuple[str, str] | None) -> bytes:
    """Charges the member's account for a sound task, if that was not done. Returns the receipt; none in other modes."""
    from noisebank.federated.blockfl.member import NO_RECEIPT

    if terms.mode != "sound":
        return NO_RECEIPT
    from noisebank.federated.blockfl.charges import DeviceAccount

    account = DeviceAccount(rpc, terms.ledger, key, folder)
    try:
        if budget is not None:
            account.open(*budget)
        reservation = account.charge(books.posted.task, books.posted.rounds, terms)
        left = account.state.left if account.state else ""
        note(f"charged {reservation.wanted} for ({terms.epsilon}, {terms.delta}) before training; {left} is left")
    finally:
        account.close()
    return reservation.id


def _member(text: str) -> tuple[str, int]:
    address, _, coins = text.partition(":")
    if coins and not (coins.isdecimal() and len(coins) < 4):
        raise BadRequest("member", text[:80], "coins are a whole number, as in 0x...:5")
    return address, int(coins or 5)


def _show_guarantee(promise: Any) -> None:
    from noisebank.cli import render as console

    rows = [("protects", promise["protects"]), *(("not protected", line) for line in promise["not_protected"])]
    console.facts(f"Privacy mode: {promise['mode']}", rows)
