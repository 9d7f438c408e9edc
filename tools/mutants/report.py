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


def describe_run(results: list[Result], explanations: dict[Key, str], facts: dict[str, Any]) -> dict[str, Any]:
    """All of it, for programs; `write_page` and `read_survivors` take this."""
    rows = [
        asdict(result) | dict(zip(("outcome", "note"), judge_result(result, explanations), strict=True))
        for result in results
    ]
    day, outcomes = f"{datetime.now(UTC):%Y-%m-%d}", dict(sorted(count_outcomes(results, explanations).items()))
    return {**facts, "day": day, "outcomes": outcomes, "mutants": rows}


def read_survivors(run: dict[str, Any]) -> list[Mutant]:
    """What no test noticed when it was first tried."""
    return [Mutant(**row["mutant"]) for row in run["mutants"] if row["outcome"] == SURVIVED]


def describe_later(
    run: dict[str, Any], results: Iterable[Result], explanations: dict[Key, str], commit: str
) -> dict[str, Any]:
    """The same run, with what came of its survivors later; what was first is kept."""
    later = {result.mutant.index: " ".join(judge_result(result, explanations)) for result in results}
    rows = [{**row, "later": later.get(row["mutant"]["index"], row.get("later", ""))} for row in run["mutants"]]
    return {**run, "later_commit": commit, "mutants": rows}


def list_earlier(run: dict[str, Any], before: dict[str, Any]) -> list[dict[str, Any]]:
    """What the page said before of other seeds: each as it was first tried, before tests were written for it."""
    told = {key: before[key] for key in ("seed", "commit", "day", "count", "outcomes") if key in before}
    rows = [*before.get("earlier", []), *([told] if told else [])]
    return [row for row in rows if row["seed"] != run["seed"]]


def list_begun(path: Path, run: dict[str, Any], explanations: dict[Key, str]) -> list[dict[str, Any]]:
    """What a journal has of samples that were not tried to the end, by seed and commit."""
    told = {row["seed"] for row in [*run.get("earlier", []), run]}
    begun: dict[tuple[int, str], dict[int, Result]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        entry = json.loads(line)
        seed, commit = entry.pop("seed"), entry.pop("commit")
        if seed not in told:
            result = Result(**{**entry, "mutant": Mutant(**entry["mutant"])})
            begun.setdefault((seed, commit), {})[result.mutant.index] = result
    return [
        {"seed": seed, "commit": commit, "count": len(results),
         "outcomes": dict(sorted(count_outcomes(results.values(), explanations).items()))}
        for (seed, commit), results in sorted(begun.items())
    ]  # fmt: skip


def write_page(run: dict[str, Any]) -> str:
    """All of it, for people."""
    seconds = sum(row["cpu_seconds"] for row in run["mutants"])
    noticed = [row["mutant"]["index"] for row in run["mutants"] if row.get("later", "").startswith(KILLED)]
    left = [row["mutant"]["index"] for row in run["mutants"] if row["outcome"] == SURVIVED]
    left = [index for index in left if index not in noticed]
    lines = [
        "# Mutants of src/",
        "",
        f"{run['count']} small mistakes, drawn evenly from {run['spots']:,} spots of `src/noisebank` where one can",
        "be made, each put into a throw-away clone: the tests that can reach it must notice it. Written by",
        f"`make mutants-src` on {run['day']}: seed {run['seed']}, commit `{run['commit'][:12]}`, "
        f"{seconds / 60:.0f} minutes of CPU time.",
        "",
        f"**{_write_counts(run['outcomes'])}** (explained in `tools/mutants/explained.json`). At least "
        f"{NOTICED_PERCENT} % of those that can be noticed must be.",
        "",
    ]
    if "later_commit" in run:
        lines += [
            f"Then tests were written for what had survived. On commit `{run['later_commit'][:12]}` "
            f"{len(noticed)} of them are noticed ({_list_numbers(noticed)}); {len(left)} are not, or were not tried "
            f"again ({_list_numbers(left)}). The first number says how good the tests were; this one does not.",
            "",
        ]
    if run.get("earlier"):
        lines += [
            "Samples, each as it was first tried: tests were then written for what survived, so the next sample is",
            "another one.",
            "",
            "| seed | day | commit | tried | noticed | survived | equivalent | noticed of those that can be |",
            "|---:|---|---|---:|---:|---:|---:|---:|",
        ]
        lines += [f"| {' | '.join(_list_cells(row))} |" for row in [*run["earlier"], run]]
        lines.append("")
    for row in run.get("begun", []):
        lines += [
            f"Begun and not tried to the end: seed {row['seed']}, commit `{row['commit'][:12]}`, of which "
            f"{row['count']} were tried: {_write_counts(row['outcomes'])}. So few say little.",
            "",
        ]
    lines += [
        "Left out: " + "; ".join(f"`{pattern}` ({why})" for pattern, why in EXCLUDED.items()) + ".",
        "",
        "| # | where | kind | change | outcome | noticed by | CPU s |",
        "|---:|---|---|---|---|---|---:|",
    ]
    for row in run["mutants"]:
        mutant = Mutant(**row["mutant"])
        change = f"`- {_escape(mutant.before)}`<br>`+ {_escape(mutant.after)}`"
        where = f"{mutant.file.removeprefix('src/noisebank/')}:{mutant.line}"
        note = _escape(row["note"]) + (f"; later {_escape(row['later'])}" if row.get("later") else "")
        cells = [str(mutant.index), where, mutant.kind, change, row["outcome"], note, f"{row['cpu_seconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _list_cells(row: dict[str, Any]) -> list[str]:
    """One sample as a row of the table of samples."""
    killed, survived, explained = (row["outcomes"].get(name, 0) for name in (KILLED, SURVIVED, EXPLAINED))
    share = f"{100 * killed / (killed + survived):.1f} %" if killed + survived else ""
    numbers = [str(number) for number in (row["count"], killed, survived, explained)]
    return [str(row["seed"]), row["day"], f"`{row['commit'][:12]}`", *numbers, share]


def _list_numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _write_counts(counts: dict[str, int]) -> str:
    names = {KILLED: "noticed", SURVIVED: "survived", EXPLAINED: "equivalent"}
    return ", ".join(f"{counts.get(outcome, 0)} {name}" for outcome, name in names.items())


def _escape(text: str) -> str:
    """For a cell of a table: no end of the cell, no end of the code, nothing that reads like a link."""
    ticks = text if text.startswith(("`", "hangs in `", f"{KILLED} `", f"{KILLED} hangs")) else text.replace("`", "'")
    return ticks.replace("|", "\\|").replace("](", "] (")
