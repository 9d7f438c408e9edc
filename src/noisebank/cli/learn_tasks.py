"""`noisebank learn post`, `join`, `aggregate`, `status` and `verify`: crowdsourced learning with books on a chain."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.learn import learn_group
from noisebank.cli.learn_options import (
    contract_option,
    find_task,
    guarantee_to_json,
    keys_option,
    load_member_keys,
    open_registry,
    open_store,
    print_note,
    rpc_option,
    store_option,
)
from noisebank.cli.options import handle_errors, json_option
from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.federated.blockfl.books import MemberState, TaskBooks
    from noisebank.federated.blockfl.device import Examples, Trainer
    from noisebank.federated.blockfl.member import MemberActivity
    from noisebank.federated.blockfl.terms import TaskTerms

task_argument = click.argument("task", required=False)


@learn_group.command("post")
@rpc_option
@contract_option
@store_option
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
@click.option("--byzantine", "-f", type=int, default=1, show_default=True, help="How many members may be malicious.")
@click.option("--seats", type=int, default=20, show_default=True, help="Expected seats of a committee.")
@click.option("--patience", type=int, default=60, show_default=True, help="Seconds that a phase waits for the late.")
@click.option("--stake", type=int, default=0, show_default=True, help="Wei that joining costs.")
@click.option("--average", type=int, default=0, show_default=True,
              help="Compare reputations with this; 0: with the average of all members.")  # fmt: skip
@click.option("--printed", is_flag=True, help="Reputation as printed in the paper, not repaired.")
@click.option("--ledger", metavar="ADDRESS", help="With sound: the budget ledger; not needed on a chain of one's own.")
@click.option("--deploy", is_flag=True, help="Put the registry on the chain first; the key pays.")
@click.option("--wait", type=float, default=120.0, show_default=True, help="Seconds to wait for members to join.")
@json_option
@handle_errors
def post_learning_task(
    rpc: str, contract: str | None, store: Path, key: Path, members: tuple[str, ...], network: str, ledger: str | None,
    deploy: bool, wait: float, as_json: bool, average: int, **options: Any,
) -> None:  # fmt: skip
    """Post a task with a random initial model, wait for its members, begin the first round.

    The task's id is printed on standard error as soon as it is posted: members join with it.

    Example:  noisebank learn post --rpc http://127.0.0.1:7545 --key poster.key --member 0x... --rounds 3
    """
    from noisebank.cli import render
    from noisebank.federated.blockfl.identifiers import format_cid
    from noisebank.federated.blockfl.krum import describe_refusals
    from noisebank.federated.blockfl.network import SHAPES
    from noisebank.federated.blockfl.registry import deploy_registry, find_own_contract
    from noisebank.federated.blockfl.task_posting import TaskRules, post_task
    from noisebank.federated.blockfl.terms import TaskTerms
    from noisebank.ledger.signing import Key

    poster = Key.load(key)
    if deploy:
        contract = deploy_registry(rpc, poster)
    registry = open_registry(rpc, contract)
    if options["mode"] == "sound":
        options["norm"] = "fixed"
        ledger = (ledger or find_own_contract(registry.node, "budget_ledger")).lower()
    rules = TaskRules(
        options.pop("rounds"), options.pop("byzantine"), options.pop("seats"), options.pop("patience"), average,
        options.pop("printed"), options.pop("stake"),
    )  # fmt: skip
    terms = TaskTerms(shape=SHAPES[network], ledger=ledger if options["mode"] == "sound" and ledger else "", **options)
    admitted = [_parse_member(text) for text in members]
    task, secret = post_task(registry, open_store(store), poster, terms, rules, admitted)
    print_note(f"task {task.hex()} on {registry.contract}")
    if warning := describe_refusals(len(admitted), rules.byzantine):
        print_note(warning)
    joined = 0
    deadline = time.monotonic() + wait
    with render.show_progress("joining", quiet=as_json) as moved:
        while joined < len(admitted) and time.monotonic() < deadline:
            joined = sum(member.public_key is not None for member in registry.read_books(task).members.values())
            moved(joined, len(admitted))
            time.sleep(0.3)
    registry.send_call(poster, "begin", task, secret)
    posted = registry.read_books(task).setup
    facts = {
        "task": task.hex(), "contract": registry.contract, "joined": joined, "model": format_cid(posted.initial_model),
        "terms": format_cid(posted.terms_digest), "guarantee": guarantee_to_json(terms, rules.round_count),
    }  # fmt: skip
    if as_json:
        render.show_json(facts)
        return
    render.show_facts("Begun", [(name, str(value)) for name, value in facts.items() if name != "guarantee"])
    _show_guarantee(facts["guarantee"])


@learn_group.command("join")
@task_argument
@rpc_option
@contract_option
@store_option
@keys_option
@click.option("--data", required=True, metavar="FILE.npz",
              help="images and labels of this member; or digits:2/10, mnist:2/10.")  # fmt: skip
@click.option("--edge", metavar="HOST:PORT", help="The edge worker; not needed in a sound task.")
@click.option("--budget", metavar="E", help="sound: epsilon of this member for all tasks together; set once.")
@click.option("--budget-delta", metavar="D", default="1e-4", show_default=True,
              help="With --budget: delta of this member for all tasks together.")  # fmt: skip
@click.option(
    "--wait", type=float, default=3600.0, show_default=True, help="Give up if nothing happens for this many seconds."
)
@json_option
@handle_errors
def join_task(
    task: str | None, rpc: str, contract: str | None, store: Path, keys: Path, data: str, edge: str | None,
    budget: str | None, budget_delta: str, wait: float, as_json: bool,
) -> None:  # fmt: skip
    """Take part in TASK until it is finished: train, sign, submit; draw lots, lead or vote.

    Says first what the task's privacy mode protects and what not. May be killed and started again at any time.

    Example:  noisebank learn join --rpc http://127.0.0.1:7545 --keys phone-7 --data digits:7/10 --edge 127.0.0.1:7600
    """
    from noisebank.cli import render
    from noisebank.federated.blockfl.device import SplitTrainer
    from noisebank.federated.blockfl.examples import read_examples
    from noisebank.federated.blockfl.member import CrowdMember
    from noisebank.federated.blockfl.member_book import MemberBook

    registry = open_registry(rpc, contract)
    id = find_task(registry, task)
    key, lot = load_member_keys(keys)
    book = MemberBook(keys)

    def make_trainer(terms: TaskTerms, books: TaskBooks) -> Trainer:
        if terms.mode == "sound":
            from noisebank.federated.blockfl.dp_sgd import DpSgdTrainer

            book.fix_example_count(id, len(examples))
            return DpSgdTrainer(terms, examples, books.setup.round_count)
        if edge is None:
            raise BadRequest("edge", None, "name an edge worker with --edge")
        return SplitTrainer(terms, examples, edge)

    def pay_for_task(terms: TaskTerms, books: TaskBooks) -> bytes:
        return _charge_task(rpc, terms, books, key, keys, None if budget is None else (budget, budget_delta))

    with render.show_progress("training", quiet=as_json or not sys.stderr.isatty()) as moved:
        member = CrowdMember(
            registry, open_store(store), key, lot, id, make_trainer, print_note, moved, pay_for_task, book
        )
        terms = member.load_terms(registry.read_books(id))
        if terms.mode != "sound" and (budget is not None or book.budget is not None):
            raise BadRequest("task", terms.mode, "this member has a budget, and only a sound task is charged to it")
        # Read now: a file that cannot be used must be refused before anything is joined or charged.
        examples: Examples = read_examples(data, terms.shape.side)
        _print_promise(terms, registry.read_books(id).setup.round_count)
        done = member.run(wait)
    facts = _participation_to_json(key.address, done, registry.read_books(id).members[key.address])
    render.show_json(facts) if as_json else render.show_facts("Done", [(k, str(v)) for k, v in facts.items()])


def _print_promise(terms: TaskTerms, round_count: int) -> None:
    """Says what a task's privacy mode protects and what not, before anything is joined."""
    promise = guarantee_to_json(terms, round_count)
    print_note(f"{terms.mode} mode protects {promise['protects']}")
    for line in promise["not_protected"]:
        print_note(f"  not protected: {line}")


def _participation_to_json(address: str, done: MemberActivity, standing: MemberState) -> dict[str, Any]:
    """Returns what a member did in a task, and what it got for that."""
    return {
        "address": address,
        "submitted": done.submitted_rounds,
        "led": done.led_rounds,
        "seats_voted": done.seats_voted,
        "opposed": done.opposed_leaders,
        "reputation": standing.reputation,
        "reward": standing.reward,
        "seconds_training": done.training_seconds,
    }


@learn_group.command("aggregate")
@task_argument
@rpc_option
@contract_option
@store_option
@keys_option
@json_option
@handle_errors
def aggregate_round(task: str | None, rpc: str, contract: str | None, store: Path, keys: Path, as_json: bool) -> None:
    """Do what is due in TASK now without training: draw a lot, propose the average, vote, end a wait.

    `learn join` does all of it by itself; this is for a member whose device is away.

    Example:  noisebank learn aggregate --rpc http://127.0.0.1:7545 --keys phone-7
    """
    from noisebank.cli import render
    from noisebank.federated.blockfl.books import Phase
    from noisebank.federated.blockfl.member import CommitteeDuties

    registry = open_registry(rpc, contract)
    id = find_task(registry, task)
    duties = CommitteeDuties(registry, open_store(store), *load_member_keys(keys), id, print_note)
    acted = duties.perform_duties(registry.read_stage(id))
    stage = registry.read_stage(id)
    facts: dict[str, Any] = {"acted": acted, "phase": stage.phase.name.lower(), "round": stage.round}
    if stage.phase in (Phase.DRAWING, Phase.VOTING):
        judgement = duties.compute_judgement(stage.round)
        entries = registry.read_books(id).current_round.submitted_models
        facts["verdicts"] = {e.member: v.name.lower() for e, v in zip(entries, judgement.verdicts, strict=True)}
    render.show_json(facts) if as_json else render.show_facts("Task", [(k, str(v)) for k, v in facts.items()])


@learn_group.command("status")
@task_argument
@rpc_option
@contract_option
@store_option
@click.option("--test", "test", metavar="FILE.npz", help="Also the accuracy of each round's model on these examples.")
@json_option
@handle_errors
def show_task_status(
    task: str | None, rpc: str, contract: str | None, store: Path, test: str | None, as_json: bool
) -> None:
    """Show a task: its rounds, submissions with verdicts, leaders, reputations and rewards, and what it promises.

    Example:  noisebank learn status --rpc http://127.0.0.1:7545 --test digits:test
    """
    from noisebank.cli import render
    from noisebank.cli.learn_tables import show_task, task_to_json

    registry = open_registry(rpc, contract)
    plain = task_to_json(registry.read_books(find_task(registry, task)), open_store(store), test)
    render.show_json(plain) if as_json else show_task(plain)


@learn_group.command("verify")
@task_argument
@rpc_option
@contract_option
@store_option
@click.option("--round", "number", type=int, help="Only this round.")
@json_option
@handle_errors
def verify_rounds(
    task: str | None, rpc: str, contract: str | None, store: Path, number: int | None, as_json: bool
) -> None:
    """Re-run a task's rounds from the ledger and the stored models: everything must come out the same, bit for bit.

    Verdicts, averages, lots, votes, reputations, rewards; in a sound task also that every model was paid for first.

    Example:  noisebank learn verify --rpc http://127.0.0.1:7545 --round 2
    """
    from noisebank.cli import render
    from noisebank.federated.blockfl.terms import read_terms
    from noisebank.federated.blockfl.verification import verify_task

    registry, models = open_registry(rpc, contract), open_store(store)

    def find_unpaid(books: TaskBooks) -> list[str]:
        from noisebank.federated.blockfl.charges import find_unpaid_models

        content = models.get(books.setup.terms_digest)
        return (
            find_unpaid_models(registry.node, read_terms(content), books)
            if content
            else ["the terms are not stored here"]
        )

    with render.show_progress("verifying", quiet=as_json) as moved:
        report = verify_task(registry, models, find_task(registry, task), number, moved, find_unpaid)
    if as_json:
        render.show_json(report.to_json())
    else:
        render.show_facts("Verified" if report.passed else "WRONG", [
            (f"round {row.number}", "; ".join(row.differences) or f"as recorded: {row.model}") for row in report.rounds
        ] + [("", line) for line in report.differences])  # fmt: skip
    sys.exit(0 if report.passed else 1)


def _charge_task(
    rpc: str, terms: TaskTerms, books: TaskBooks, key: Any, folder: Path, budget: tuple[str, str] | None
) -> bytes:
    """Charges the member's account for a sound task, if that was not done. Returns the receipt; none in other modes."""
    from noisebank.federated.blockfl.member import NO_RECEIPT

    if terms.mode != "sound":
        return NO_RECEIPT
    from noisebank.federated.blockfl.charges import DeviceAccount

    account = DeviceAccount(rpc, terms.ledger, key, folder)
    try:
        if budget is not None:
            account.open_budget(*budget)
        reservation = account.charge_task(books.setup.task_id, books.setup.round_count, terms)
        left = account.state.remaining_budget if account.state else ""
        print_note(f"charged {reservation.target} for ({terms.epsilon}, {terms.delta}) before training; {left} is left")
    finally:
        account.close()
    return reservation.id


def _parse_member(text: str) -> tuple[str, int]:
    address, _, coins = text.partition(":")
    if coins and not (coins.isdecimal() and len(coins) < 4):
        raise BadRequest("member", text[:80], "coins are a whole number, as in 0x...:5")
    return address, int(coins or 5)


def _show_guarantee(promise: Any) -> None:
    from noisebank.cli import render

    rows = [("protects", promise["protects"]), *(("not protected", line) for line in promise["not_protected"])]
    render.show_facts(f"Privacy mode: {promise['mode']}", rows)
