"""Small mistakes put into the contract, one at a time: the tests must notice each of them.

    PYTHONPATH=src:tests .venv/bin/python -m contract.mutants [--only N] [--json FILE]

With --json, results are kept as they come, with the digest of the contract's bytecode: a run that was interrupted
goes on where it stopped (what had timed out is tried again), and one on another contract begins anew.

Each comparison is flipped, each assert, state write, call and log dropped, each + and -, // and *, and/or swapped,
each number moved by one. A mutant that compiles to the same code as the original is equivalent. Survivors must be
explained in `explained_mutants.json`; one that is not makes the exit code 1.

A mutant takes a compilation and, mostly, a part of the tests. Everything heavy is imported once; each mutant then
runs in a fork of this process.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from support.paths import ROOT

CONTRACTS = ROOT / "contracts"
MAIN = CONTRACTS / "budget_ledger.vy"
ARTEFACT = ROOT / "src" / "noisebank" / "ledger" / "budget_ledger.json"
EXPLAINED = Path(__file__).parent / "explained_mutants.json"
VARIABLE = "NOISEBANK_CONTRACT_ARTEFACT"
TESTS = [
    "-x", "-q", "-p", "no:cacheprovider", "-p", "contract.unshrunk", "-m", "not slow", "tests/contract",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # what is imported already, on purpose
    "--ignore=tests/contract/test_artefact.py", "--ignore=tests/contract/test_halmos.py",
    "--ignore=tests/contract/test_gas.py", "-k", "not test_invariant_holds",
]  # fmt: skip
"""What must fail. Left out: tests that look at the source, which the mutant's artefact does not change (two of them
compile a variant of it, which takes longer than all the others), and those of gas, which would notice changes that
matter to nobody."""
PRELOADED = (
    "pytest",
    "hypothesis.stateful",
    "vyper.compiler",
    "support.banks",
    "assurance.overspend",
    "contract.unshrunk",
)

SWAPS = {
    "<=": ["<"], "<": ["<="], ">=": [">"], ">": [">="], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["//"], "//": ["*"], "%": ["//"], "+=": ["-="], "-=": ["+="],
    "*=": ["//="], "//=": ["*="], "&": ["|"], "|": ["&"], "<<": [">>"], ">>": ["<<"],
    "and": ["or"], "or": ["and"], "not": [""], "True": ["False"], "False": ["True"], "min": ["max"], "max": ["min"],
}  # fmt: skip
KILLED, SURVIVED, TIMED_OUT, EQUIVALENT, UNCOMPILABLE = "killed", "survived", "timed out", "equivalent", "uncompilable"


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    number: int
    file: str
    row: int
    """Of the line, from 1; only for people: explanations match by text."""
    within: str
    """The function, or empty."""
    line: str
    """The line or statement before, on one line."""
    change: str
    """The same after."""
    start: int
    stop: int
    text: str
    """What stands at [start, stop) of the file instead."""

    def applied(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.stop :]

    def __str__(self) -> str:
        return f"#{self.number} {self.file}:{self.row} {self.within}\n    - {self.line}\n    + {self.change}"


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    outcome: str
    seconds: float
    said: str = ""
    """The first failing test, or the compiler's words."""


# -- making mutants -------------------------------------------------------------------------------


def sources(main: Path = MAIN) -> list[Path]:
    """The contract and the modules beside it that it imports."""
    found = [main]
    for path in found:  # grows while we walk
        for name in re.findall(r"^(?:from \. )?import (\w+)", path.read_text(), re.MULTILINE):
            module = path.with_name(f"{name}.vy")
            if module.exists() and module not in found:
                found.append(module)
    return found


def mutants(paths: Iterable[Path]) -> list[Mutant]:
    """All of them, numbered from 1 in the order of the sources."""
    made: list[Mutant] = []
    for path in paths:
        source = path.read_text()
        for row, within, start, stop, text, before, after in _changes(source):
            made.append(Mutant(len(made) + 1, path.name, row, within, before, after, start, stop, text))
    return made


def _changes(source: str) -> Iterator[tuple[int, str, int, int, str, str, str]]:
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))

    def place(position: tuple[int, int]) -> int:
        return offsets[position[0] - 1] + position[1]

    within = ""
    for statement in _statements(source):
        first, last = statement[0], statement[-1]
        row, start, stop = first.start[0], place(first.start), place(last.end)
        if first.string == "def":
            within = statement[1].string
        elif first.start[1] == 0:
            within = ""
        whole = source[start:stop]
        if _can_be_dropped(statement):
            rest = "\n" * whole.count("\n")  # keeps the numbers of later lines
            yield row, within, start, stop, f"pass{rest}", _flat(whole), "pass"
        if first.string in ("import", "from", "initializes", "uses", "exports", "implements"):
            continue
        for token in statement:
            for text in _instead_of(token):
                here, there = place(token.start), place(token.end)
                changed = source[start:here] + text + source[there:stop]
                yield token.start[0], within, here, there, text, _flat(whole), _flat(changed)


def _statements(source: str) -> Iterator[list[tokenize.TokenInfo]]:
    """Logical lines without comments and docstrings. Vyper has Python's tokens."""
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if any(part.type != tokenize.STRING for part in statement):
                yield statement
            statement = []
        elif token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            statement.append(token)


def _can_be_dropped(statement: list[tokenize.TokenInfo]) -> bool:
    """Asserts, logs, writes of state, and calls that are made for what they do. A write counts in modules too:
    `self.x[...] = ...`, also of a storage variable of an imported module."""
    first = statement[0].string
    if first in ("assert", "raise", "log", "break"):
        return True
    return first == "self"


def _instead_of(token: tokenize.TokenInfo) -> list[str]:
    if token.type in (tokenize.OP, tokenize.NAME):
        return SWAPS.get(token.string, [])
    if token.type == tokenize.NUMBER and re.fullmatch(r"[0-9_]+", token.string):
        number = int(token.string)
        return [str(number + 1)] + ([str(number - 1)] if number else [])
    return []


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"#[^\n]*", "", text)).strip()


# -- trying one -----------------------------------------------------------------------------------


def compiled(mutant: Mutant | None, folder: Path) -> dict[str, Any]:
    """The artefact of the contract with the mutant in it, compiled as contracts/compile.py does."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in sources():
        text = path.read_text()
        (folder / path.name).write_text(mutant.applied(text) if mutant and mutant.file == path.name else text)
    spec = spec_from_file_location("compile_contracts", CONTRACTS / "compile.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    gc.disable()  # a quarter of the compiler's time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(module.compiled(folder / MAIN.name))
    finally:
        gc.enable()


def attempt(mutant: Mutant | None, room: Path, original: str, command: str | None) -> tuple[str, str]:
    """Outcome and what was said; in a process of its own, since it changes what this one has loaded."""
    try:
        artefact = compiled(mutant, room / "sources")
    except Exception as error:  # whatever a compiler may throw at nonsense
        return UNCOMPILABLE, str(error).strip().splitlines()[0][:160]
    if mutant and artefact["runtime"] == original:
        return EQUIVALENT, ""
    path = room / "artefact.json"
    path.write_text(json.dumps(artefact))
    os.environ[VARIABLE] = str(path)
    log = room / "said"
    if command:
        with log.open("w") as said:
            code = subprocess.run(shlex.split(command), cwd=ROOT, stdout=said, stderr=said, check=False).returncode
    else:
        _speak_to(log)
        import pytest

        code = int(pytest.main([*TESTS, f"--basetemp={room / 'pytest'}"]))
    failed = re.search(r"^(?:FAILED|ERROR) (.*)$", log.read_text(errors="replace"), re.MULTILINE)
    if code not in (0, 1):
        return "broken", f"the tests ended with {code}: {log.read_text(errors='replace')[-600:]}"
    return (SURVIVED if code == 0 else KILLED), failed[1][:200] if failed else ""


def _speak_to(log: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)


@dataclass
class Worker:
    """A fork that tries one mutant."""

    mutant: Mutant | None
    room: Path
    pid: int
    began: float

    @classmethod
    def start(cls, mutant: Mutant | None, room: Path, original: str, command: str | None) -> Worker:
        shutil.rmtree(room, ignore_errors=True)
        room.mkdir(parents=True)
        pid = os.fork()
        if pid == 0:
            os.setsid()  # so that what it starts (a test chain, say) can be ended with it
            outcome = ("broken", "the worker died")
            try:
                outcome = attempt(mutant, room, original, command)
            except BaseException as error:
                outcome = ("broken", repr(error))
            finally:
                (room / "outcome.json").write_text(json.dumps(outcome))
                os._exit(0)
        return cls(mutant, room, pid, time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def ended(self, timeout: float) -> tuple[str, str] | None:
        """Outcome and words, or nothing yet."""
        pid, _ = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0 and self.seconds < timeout:
            return None
        if pid == 0:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return TIMED_OUT, f"after {timeout:.0f} s"
        written = self.room / "outcome.json"
        outcome, said = json.loads(written.read_text()) if written.exists() else ("broken", "the worker died")
        return outcome, said


# -- trying all -----------------------------------------------------------------------------------


def try_all(todo: list[Mutant], workers: int, command: str | None, timeout: float | None) -> Iterator[Result]:
    """Results as they come. First the tests must pass on the contract as it is."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        room = Path(scratch)
        original = str(compiled(None, room / "original")["runtime"])
        if original != json.loads(ARTEFACT.read_text())["runtime"]:
            raise SystemExit("compiled here, the contract as it is gives another bytecode than the artefact's")
        first = Worker.start(None, room / "0", original, command)
        while (outcome := first.ended(600)) is None:
            time.sleep(0.05)
        if outcome[0] != SURVIVED:
            raise SystemExit(f"the tests do not pass on the contract as it is: {outcome[1]}")
        limit = timeout or 30 + 5 * first.seconds
        print(
            f"{len(todo)} mutants; the contract itself takes {first.seconds:.1f} s, a mutant at most {limit:.0f} s",
            flush=True,
        )
        waiting, running = list(reversed(todo)), list[Worker]()
        while waiting or running:
            while waiting and len(running) < workers:
                mutant = waiting.pop()
                running.append(Worker.start(mutant, room / str(mutant.number), original, command))
            for worker in list(running):
                ended = worker.ended(limit)
                if ended is not None:
                    running.remove(worker)
                    shutil.rmtree(worker.room, ignore_errors=True)
                    assert worker.mutant is not None
                    yield Result(worker.mutant, ended[0], worker.seconds, ended[1])
            time.sleep(0.02)


def explanations() -> dict[tuple[str, str, str, str], str]:
    """Why a survivor is harmless, by file, function, line and change."""
    if not EXPLAINED.exists():
        return {}
    return {
        (entry["file"], entry["within"], entry["line"], entry["change"]): entry["why"]
        for entry in json.loads(EXPLAINED.read_text())
    }


def key(mutant: Mutant) -> tuple[str, str, str, str]:
    return mutant.file, mutant.within, mutant.line, mutant.change


def report(results: list[Result], complete: bool) -> int:
    """Says how it went; the exit code."""
    explained = explanations()
    counts = Counter(result.outcome for result in results)
    print("\n" + ", ".join(f"{counts[outcome]} {outcome}" for outcome in sorted(counts)))
    survivors = [result.mutant for result in results if result.outcome == SURVIVED]
    unexplained = [mutant for mutant in survivors if key(mutant) not in explained]
    for result in results:
        if result.outcome in (TIMED_OUT, "broken"):
            print(f"{result.outcome}: {result.mutant}\n    {result.said}")
    if complete:
        for file, within, line, change in set(explained) - {key(mutant) for mutant in survivors}:
            print(f"explained, but no longer a survivor: {file} {within}: {line} -> {change}")
    print(f"{len(survivors) - len(unexplained)} survivors are explained, {len(unexplained)} are not")
    for mutant in unexplained:
        print(f"survived: {mutant}")
    return 1 if unexplained or counts["broken"] else 0


def chosen(all_of_them: list[Mutant], only: str | None) -> list[Mutant]:
    """`only` is like 7, 7-20 or 1,5,9-12; or a text in the line or function."""
    if not only:
        return all_of_them
    if not re.fullmatch(r"[\d,-]+", only):
        return [mutant for mutant in all_of_them if only in mutant.line or only == mutant.within]
    numbers: set[int] = set()
    for part in only.split(","):
        low, _, high = part.partition("-")
        numbers |= set(range(int(low), int(high or low) + 1))
    return [mutant for mutant in all_of_them if mutant.number in numbers]


def read_results(path: Path, digest: str) -> dict[int, Result]:
    """Returns what an earlier run on the same contract found, by the mutant's number."""
    if not path.exists():
        return {}
    saved = json.loads(path.read_text())
    if saved["contract"] != digest:
        return {}
    results = (Result(**{**entry, "mutant": Mutant(**entry["mutant"])}) for entry in saved["results"])
    return {result.mutant.number: result for result in results if result.outcome not in ("broken", TIMED_OUT)}


def write_results(path: Path, digest: str, results: Iterable[Result]) -> None:
    """Replaces the file with all results, in the order of the mutants."""
    entries = [asdict(result) for result in sorted(results, key=lambda result: result.mutant.number)]
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    beside = path.with_suffix(".new")
    beside.write_text(f'{{"contract": "{digest}", "results": [\n{lines}\n]}}\n')
    beside.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="contract.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="numbers (7, 7-20, 1,5) or a text in the line; default: all")
    parser.add_argument("--every", type=int, default=1, help="of these, only every N-th: a sample")
    parser.add_argument("--json", type=Path, help="keep all results here, and go on from those that are there")
    parser.add_argument("--list", action="store_true", help="show the mutants, try none")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=float, help="seconds for one mutant; default: from the first run")
    parser.add_argument("--command", help=f"another test command; {VARIABLE} names the mutant's artefact")
    options = parser.parse_args()
    made = mutants(sources())
    todo = chosen(made, options.only)[:: options.every]
    if options.list:
        print("\n".join(str(mutant) for mutant in todo))
        return 0
    for name in PRELOADED:
        importlib.import_module(name)
    importlib.import_module("contract.quick_vyper").hurry()
    digest = sha256(bytes.fromhex(json.loads(ARTEFACT.read_text())["runtime"].removeprefix("0x"))).hexdigest()
    known = read_results(options.json, digest) if options.json else {}
    left = [mutant for mutant in todo if mutant.number not in known or known[mutant.number].mutant != mutant]
    began, found = time.monotonic(), list[Result]()
    for result in try_all(left, options.workers, options.command, options.timeout) if left else ():
        found.append(result)
        known[result.mutant.number] = result
        spent = time.monotonic() - began
        to_go = spent / len(found) * (len(left) - len(found))
        if result.outcome == SURVIVED:
            print(
                f"survived{' (explained)' if key(result.mutant) in explanations() else ''}: {result.mutant}", flush=True
            )
        if len(found) % 10 == 0 or len(found) == len(left):
            counts = Counter(one.outcome for one in found)
            print(f"{len(found)}/{len(left)} {dict(counts)}; {spent:.0f} s, about {to_go:.0f} s to go", flush=True)
        if options.json:
            write_results(options.json, digest, known.values())
    results = [known[mutant.number] for mutant in todo]
    return report(results, complete=len(todo) == len(made))


if __name__ == "__main__":
    raise SystemExit(main())
