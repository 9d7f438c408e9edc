"""`noisebank relay host` and `join`: a mean over processes that do not trust each other."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.options import handle_errors, json_option
from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.federated.relay.guarantee import RelayGuarantee
    from noisebank.federated.relay.host import RoundOutcome
    from noisebank.federated.relay.plan import RelayPlan
    from noisebank.ledger.signing import Key

key_option = click.option(
    "--key", type=click.Path(path_type=Path), help="Signing key; a fresh one for this round if absent."
)
listen_option = click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Where to listen; port 0 picks one."
)
record_option = click.option(
    "--record", type=click.Path(path_type=Path), help="Append everything sent to this file, as JSON lines."
)


@click.group("relay")
def relay_group() -> None:
    """Compute a mean over members who trust nobody. By relay (Chained-DP) or under masks."""


@relay_group.command("host")
@click.option("--members", "-k", type=int, required=True, help="How many members to wait for.")
@click.option("--dimension", "-d", type=int, required=True, help="Numbers in a vector.")
@click.option("--bound", metavar="D", default="1", show_default=True, help="Numbers are clipped to [-D, D].")
@click.option(
    "--mode", type=click.Choice(["masked", "bas", "sar"]), default="masked", show_default=True,
    help="masked: only the sum is seen. bas: one relay. sar: a relay for each slice.",
)  # fmt: skip
@click.option("--epsilon", metavar="E", help="Add at least the noise that this epsilon needs for a whole vector.")
@click.option("--delta", metavar="D", default="1e-6", show_default=True, help="For all epsilons of this round.")
@click.option("--floor", metavar="V", default="0", show_default=True, help="Least variance that every member adds.")
@click.option("--colluders", type=int, default=0, show_default=True, help="masked: how many members may collude.")
@click.option("--slices", type=int, default=1, show_default=True, help="sar: how many slices.")
@click.option("--groups", type=int, default=1, show_default=True, help="bas, sar: split into so many relays.")
@click.option("--split", type=click.Choice(["sorted", "random"]), default="sorted", show_default=True,
              help="How members are put into groups.")  # fmt: skip
@click.option(
    "--skip", metavar="P", default="0", show_default=True, help="sar: send no fresh slice with this probability."
)
@click.option("--instead", type=click.Choice(["zeros", "past"]), default="zeros", show_default=True,
              help="With --skip: what goes in a slice's place; past is the member's last one.")  # fmt: skip
@click.option("--slice-norm", metavar="R", help="sar: re-clip each slice to this norm, in bounds.")
@click.option("--attempts", type=int, default=2, show_default=True, help="Starts, at most; each costs privacy anew.")
@click.option("--least-members", type=int, default=2, show_default=True, help="Do not go on with fewer.")
@click.option("--publish", is_flag=True, help="Tell the members the sum.")
@click.option("--member", "allowed", multiple=True, metavar="ADDRESS", help="Only these may join; repeat it.")
@click.option("--wait", type=float, default=60.0, show_default=True, help="Seconds to wait for members.")
@click.option("--patience", type=float, default=10.0, show_default=True, help="Seconds to wait for one step.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the mean to this JSON file.")
@click.option("--report", type=click.Path(path_type=Path),
              help="Write what each member was promised to this JSON file; `serve` shows them.")  # fmt: skip
@key_option
@listen_option
@record_option
@json_option
@handle_errors
def host_round(
    members: int, allowed: tuple[str, ...], wait: float, out: Path | None, report: Path | None, key: Path | None,
    listen: str, record: Path | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Gather members, agree on a plan, collect the sum; go on without members that fail.

    Prints what each member is promised, against whom, before anything is sent.

    Example:  noisebank relay host --members 3 --dimension 4 --epsilon 4 --listen 127.0.0.1:7000
    """
    from noisebank.federated.relay.host import Host
    from noisebank.federated.relay.report import make_round_report

    plans: list[RelayPlan] = []
    print_promises = _make_printer("Promised to the member that is worst off")

    def show(plan: RelayPlan, guarantees: list[RelayGuarantee]) -> None:
        plans.append(plan)
        print_promises(plan, guarantees)

    server = Host(
        _load_key(key),
        _make_terms(**options),
        members,
        listen=listen,
        allowed_addresses=frozenset(who.lower() for who in allowed),
        wait_seconds=wait,
        tap=_make_tap(record),
        show=show,
        say=_print_note,
    )
    _print_note(f"listening on {server.endpoint} as {server.address}")
    outcome = server.run()
    mean = None if outcome.mean is None else [float(number) for number in outcome.mean]
    if out is not None and mean is not None:
        out.write_text(json.dumps(mean) + "\n")
    if report is not None and plans:
        report.write_bytes(make_round_report(report.stem, plans, outcome).to_bytes())
    if as_json:
        facts = _outcome_to_json(outcome)
        _print_json(facts if out is not None else {**facts, "mean": mean})
    else:
        _show_outcome(outcome, mean)
    sys.exit(0 if outcome.done else 1)


def _outcome_to_json(outcome: RoundOutcome) -> dict[str, Any]:
    """Returns how a round ended, without its mean, for --json."""
    return {
        "done": outcome.done,
        "reason": outcome.reason,
        "members": outcome.member_count,
        "attempts": outcome.attempt_count,
        "stddev": outcome.stddev,
        "seconds": outcome.seconds,
        "left_out": outcome.left_out,
        "guarantees": [row.to_json() for row in outcome.guarantees],
    }


def _show_outcome(outcome: RoundOutcome, mean: list[float] | None) -> None:
    """Prints how a round ended."""
    from noisebank.cli import render  # after the round: ten members on one machine start sooner without it

    members = f"{outcome.member_count}, {len(outcome.left_out)} left out, {outcome.attempt_count} attempts"
    rows = [("ended", outcome.reason), ("members", members)]
    if mean:
        first = ", ".join(f"{number:.4g}" for number in mean[:6]) + (" ..." if len(mean) > 6 else "")
        rows.append(("mean", f"{first} (standard deviation of each {outcome.stddev:.3g})"))
        rows.append(("time", f"{outcome.seconds:.2f} s after the last had joined"))
    render.show_facts("Relay", rows)


@relay_group.command("join")
@click.argument("host_endpoint", metavar="HOST:PORT")
@click.option("--vector", type=click.Path(path_type=Path), required=True,
              help="The numbers: a JSON list, a .npy file, or text.")  # fmt: skip
@click.option(
    "--past", type=click.Path(path_type=Path), help="The vector of the round before, if past slices are sent."
)
@click.option("--preference", "-b", type=float, required=True, help="beta: how much noise this member wants.")
@click.option("--max-epsilon", type=float, help="Take part only if --trust learns no more than this.")
@click.option("--max-delta", metavar="D", default="1e-5", show_default=True,
              help="Take part only if the host's delta is no larger.")  # fmt: skip
@click.option("--trust", metavar="N[+server]", default="1", show_default=True,
              help="Whom to be safe against: so many colluding members, and the server.")  # fmt: skip
@click.option("--suspicion", type=float, metavar="P", help="Take part only below the collusion threshold (SAR).")
@click.option("--attackers", type=click.Choice(["weak", "strong", "published"]), default="strong", show_default=True,
              help="With --suspicion: what colluders can do.")  # fmt: skip
@click.option("--unprotected", is_flag=True, help="Take part even if --trust can compute the vector.")
@click.option("--host-key", metavar="ADDRESS", default="", help="The host must be this one.")
@click.option("--peer", "peers", multiple=True, metavar="ADDRESS", help="All other members must be among these.")
@click.option("--wait", type=float, default=600.0, show_default=True, help="Seconds to wait for the round to begin.")
@click.option("--advertise", metavar="HOST:PORT", help="Where others reach this member, if not where it listens.")
@key_option
@listen_option
@record_option
@json_option
@handle_errors
def join_round(
    host_endpoint: str, vector: Path, past: Path | None, preference: float, max_epsilon: float | None, max_delta: str,
    trust: str, host_key: str, peers: tuple[str, ...], wait: float, advertise: str | None, key: Path | None,
    listen: str, record: Path | None, as_json: bool, **demands: Any,
) -> None:  # fmt: skip
    """Take part with one vector, if the promise is good enough.

    Shows what is promised, against whom, before anything of the vector is sent; leaves if it is too little.

    Example:  noisebank relay join 127.0.0.1:7000 --vector mine.json --preference 1 --max-epsilon 4
    """
    from noisebank.core.units import parse_exact
    from noisebank.federated.relay.member import RelayMember
    from noisebank.federated.relay.requirements import Requirements

    demand = Requirements(
        _parse_trust(trust), inf if max_epsilon is None else max_epsilon, peers=frozenset(who.lower() for who in peers),
        max_delta=parse_exact(max_delta, "delta"), **demands,
    )  # fmt: skip
    member = RelayMember(
        _load_key(key),
        _read_vector(vector),
        preference,
        host_endpoint,
        past_vector=None if past is None else _read_vector(past),
        listen=listen,
        advertise=advertise,
        requirements=demand,
        host_address=host_key.lower(),
        tap=_make_tap(record),
        show=_make_printer("Promised to this member"),
        say=_print_note,
        wait_seconds=wait,
    )
    outcome = member.run()
    plain = {
        "done": outcome.done, "reason": outcome.reason, "address": member.address, "members": outcome.member_count,
        "attempts_sent": outcome.attempts_sent, "clipped": outcome.clipped_count,
        "mean": None if outcome.mean is None else [float(number) for number in outcome.mean],
        "guarantees": [row.to_json() for row in outcome.guarantees],
    }  # fmt: skip
    if as_json:
        _print_json(plain)
    else:
        from noisebank.cli import render as console  # see above

        rows = [("ended", outcome.reason), ("sent", f"in {outcome.attempts_sent} attempts"),
                ("clipped", f"{outcome.clipped_count} numbers")]  # fmt: skip
        console.show_facts("Relay", rows + [(str(row.coalition), str(row)) for row in outcome.guarantees])
    sys.exit(0 if outcome.done else 1)


def _make_terms(epsilon: str | None, patience: float, slice_norm: str | None, **options: Any) -> Any:
    from noisebank.core.units import parse_exact
    from noisebank.federated.relay.terms import RelayTerms, min_variance

    for name in ("bound", "floor", "delta", "skip"):
        options[name] = parse_exact(options[name], name)
    norm = None if slice_norm is None else parse_exact(slice_norm, "slice norm")
    terms = RelayTerms(**options, slice_norm=norm, patience_ms=_to_milliseconds(patience))
    if epsilon is None:
        return terms
    variance = min_variance(parse_exact(epsilon, "epsilon"), terms.delta, terms.dimension, terms.attempts)
    return RelayTerms(
        **options, slice_norm=norm, patience_ms=terms.patience_ms, least=Fraction(ceil(variance * 10**9), 10**9)
    )


def _to_milliseconds(seconds: float) -> int:
    if not 0.1 <= seconds <= 600.0:
        raise BadRequest("patience", seconds, "must lie in 0.1 .. 600 seconds")
    return round(seconds * 1000)


def _parse_trust(text: str) -> Any:
    from noisebank.federated.relay.guarantee import Coalition

    number = text.removesuffix("+server")
    if not number.isdecimal() or len(number) > 4:
        raise BadRequest("trust", text[:40], "must be a number of members, with +server if the server is among them")
    return Coalition(int(number), text.endswith("+server"))


def _load_key(path: Path | None) -> Key:
    from noisebank.core.entropy import SystemEntropy
    from noisebank.ledger.signing import Key

    return Key(SystemEntropy().token()) if path is None else Key.load(path)


def _read_vector(path: Path) -> Any:
    """Reads numbers from a file; the member checks them."""
    import numpy as np

    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        text = path.read_text()
        return json.loads(text) if text.lstrip().startswith("[") else [float(x) for x in text.replace(",", " ").split()]
    except (OSError, ValueError, UnicodeDecodeError):
        raise BadRequest("vector", path, "cannot be read as a list of numbers") from None


def _make_tap(path: Path | None) -> Any:
    """Returns a function that appends what is sent to a file; the numbers in it are encrypted."""
    if path is None:
        return lambda to, raw: None

    def write_message(to: str, raw: bytes) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"to": to, "bytes": raw.hex()}) + "\n")

    return write_message


def _print_json(plain: dict[str, Any]) -> None:
    """Like `show_json`, without 0.1 seconds of imports: they matter to ten processes on two cores."""
    click.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def _print_note(line: str) -> None:
    click.echo(line, err=True)


def _make_printer(title: str) -> Any:
    """Returns a function that prints guarantees on standard error, before anything is sent."""

    def print_guarantees(plan: RelayPlan, guarantees: list[RelayGuarantee]) -> None:
        delta = float(plan.terms.delta)
        _print_note(f"{title} (attempt {plan.attempt}, {len(plan.members)} members, whole vector, delta {delta:g}):")
        for row in guarantees:
            _print_note(f"  {row.coalition!s:<44} {row}")
        if plan.chains:
            _print_note("  for members who follow the protocol; against cheats read the row of two colluding members")

    return print_guarantees
