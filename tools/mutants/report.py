"""What was tried, as lines to go on from, as JSON and as a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.mutants.changes import EXCLUDED, Mutant
from tools.mutants.trial import KILLED, SURVIVED, Result

EXPLAINED = "equivalent"
NOTICED_PERCENT = 95
"""So many of the mutants that can be noticed must be."""
Key = tuple[str, str, str, str]


class Journal:
    """One line per result; a run that was stopped goes on where it stopped."""

    def __init__(self, path: Path, seed: int, commit: str) -> None:
        self.path, self.seed, self.commit = path, seed, commit

    def read_results(self) -> dict[int, Result]:
        """By index: the newest of this seed and commit."""
        results: dict[int, Result] = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            entry = json.loads(line)
            if (entry.pop("seed"), entry.pop("commit")) == (self.seed, self.commit):
                results[entry["mutant"]["index"]] = Result(**{**entry, "mutant": Mutant(**entry["mutant"])})
        return results

    def read_settled(self, explanations: dict[Key, str], is_alike: Callable[[str, str], bool]) -> dict[int, Result]:
        """By index: those noticed on other commits, or explained. `is_alike(commit, path)`: whether a path is the same
        there as here. With the same src/ the sample is the same, and a file of tests that noticed a mutant still does.
        """
        settled: dict[int, Result] = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            entry = json.loads(line)
            seed, commit = entry.pop("seed"), entry.pop("commit")
            result = Result(**{**entry, "mutant": Mutant(**entry["mutant"])})
            if seed != self.seed or commit == self.commit or not is_alike(commit, "src"):
                continue
            if result.outcome == KILLED:
                is_settled = is_alike(commit, result.test.partition("::")[0])
            else:
                is_settled = judge_result(result, explanations)[0] == EXPLAINED
            if is_settled:
                settled[result.mutant.index] = result
        return settled

    def read_first_results(self, results: dict[int, Result]) -> list[tuple[str, Result]]:
        """For each mutant, in their order, what came of it when it was first tried, and on which commit."""
        first: dict[int, tuple[str, Result]] = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            entry = json.loads(line)
            seed, commit = entry.pop("seed"), entry.pop("commit")
            result = Result(**{**entry, "mutant": Mutant(**entry["mutant"])})
            index = result.mutant.index
            is_wanted = seed == self.seed and index in results and result.mutant == results[index].mutant
            if is_wanted and (index not in first or first[index][0] == commit):  # tried again there: with more tests
                first[index] = commit, result
        return [first[index] for index in sorted(first)]

    def append(self, result: Result) -> None:
        """Adds one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as lines:
            lines.write(json.dumps({"seed": self.seed, "commit": self.commit, **asdict(result)}) + "\n")


def read_explanations(path: Path) -> dict[Key, str]:
    """Why a mutant behaves like the original, by file, function and the lines before and after."""
    entries = json.loads(path.read_text()) if path.exists() else []
    return {(entry["file"], entry["within"], entry["before"], entry["after"]): entry["why"] for entry in entries}


def judge_result(result: Result, explanations: dict[Key, str]) -> tuple[str, str]:
    """The outcome, and what to say about it. A mutant that was noticed is not equivalent, whatever was explained."""
    mutant = result.mutant
    why = explanations.get((mutant.file, mutant.within, mutant.before, mutant.after))
    if result.outcome == SURVIVED and why is not None:
        return EXPLAINED, why
    if result.outcome == KILLED:
        return KILLED, f"hangs in `{result.test}`" if result.how == "hangs" else f"`{result.test}`"
    return result.outcome, result.how


def count_outcomes(results: Iterable[Result], explanations: dict[Key, str]) -> Counter[str]:
    """How many of each."""
    return Counter(judge_result(result, explanations)[0] for result in results)


def is_enough(counts: Counter[str]) -> bool:
    """Whether so many are noticed as must be, of those that can be."""
    return counts[KILLED] * 100 >= NOTICED_PERCENT * (counts[KILLED] + counts[SURVIVED])


def describe_first_pass(first: list[tuple[str, Result]], explanations: dict[Key, str]) -> dict[str, Any]:
    """What came of the mutants before tests were written for those that had survived."""
    counts = count_outcomes((result for _, result in first), explanations)
    return {
        "commits": sorted({commit for commit, _ in first}),
        "outcomes": dict(sorted(counts.items())),
        "survived": [result.mutant.index for _, result in first if judge_result(result, explanations)[0] == SURVIVED],
        "cpu_seconds": round(sum(result.cpu_seconds for _, result in first)),
    }


def describe_run(results: list[Result], explanations: dict[Key, str], facts: dict[str, Any]) -> dict[str, Any]:
    """All of it, for programs."""
    rows = [
        asdict(result) | dict(zip(("outcome", "note"), judge_result(result, explanations), strict=True))
        for result in results
    ]
    return {**facts, "outcomes": dict(sorted(count_outcomes(results, explanations).items())), "mutants": rows}


def write_page(results: list[Result], explanations: dict[Key, str], facts: dict[str, Any]) -> str:
    """All of it, for people."""
    counts, first = count_outcomes(results, explanations), facts["first_pass"]
    seconds = sum(result.cpu_seconds for result in results)
    commits = ", ".join(f"`{commit[:12]}`" for commit in first["commits"])
    numbers = ", ".join(map(str, first["survived"]))
    lines = [
        "# Mutants of src/",
        "",
        f"{facts['count']} small mistakes, drawn evenly from {facts['spots']:,} spots of `src/noisebank` where one can",
        "be made, each put into a throw-away clone: the tests that can reach it must notice it. Written by",
        f"`make mutants-src` on {datetime.now(UTC):%Y-%m-%d}: seed {facts['seed']}, commit `{facts['commit'][:12]}`, "
        f"{seconds / 60:.0f} minutes of CPU time.",
        "",
        f"**First tried, on {commits}: {_write_counts(first['outcomes'])}.** That number says how good the tests",
        f"are. At least {NOTICED_PERCENT} % of those that can be noticed must be; why one is equivalent says",
        "`tools/mutants/explained.json`.",
        "",
        f"**Now: {_write_counts(counts)}**; tests were written for what survived at first ({numbers or 'none'}).",
        "",
        "Left out: " + "; ".join(f"`{pattern}` ({why})" for pattern, why in EXCLUDED.items()) + ".",
        "",
        "| # | where | kind | change | outcome | noticed by | CPU s |",
        "|---:|---|---|---|---|---|---:|",
    ]
    for result in results:
        mutant = result.mutant
        outcome, note = judge_result(result, explanations)
        change = f"`- {_escape(mutant.before)}`<br>`+ {_escape(mutant.after)}`"
        where = f"{mutant.file.removeprefix('src/noisebank/')}:{mutant.line}"
        cells = [str(mutant.index), where, mutant.kind, change, outcome, _escape(note), f"{result.cpu_seconds:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _write_counts(counts: dict[str, int]) -> str:
    names = {KILLED: "noticed", SURVIVED: "survived", EXPLAINED: "equivalent"}
    return ", ".join(f"{counts.get(outcome, 0)} {name}" for outcome, name in names.items())


def _escape(text: str) -> str:
    """For a cell of a table: no end of the cell, no end of the code, nothing that reads like a link."""
    ticks = text if text.startswith("`") or text.startswith("hangs in `") else text.replace("`", "'")
    return ticks.replace("|", "\\|").replace("](", "] (")
