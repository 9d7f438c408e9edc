"""The results that are kept: docs/results/assurance.json, and the page that is made from it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assurance.exercised import DATA_FOLDERS, PINNED, PYTHON_FOLDERS, ROOT, Tree

RESULTS = ROOT / "docs" / "results"
LOGS = ROOT / "build" / "assurance"
"""What each row printed. Not kept in the repository."""
Entry = dict[str, Any]

HEADER = """\
# Assurance: what must never happen, measured

Written by `make assurance`, row by row, each as soon as it ended; nothing here is entered by hand. `count`, `date` and
`commit` say what ran when on which version, `seconds` how long it took, with the CPU time of all of its processes in
brackets. Each planted bug must be *caught* by the very check that passes for the real code. Audits can disprove
privacy, never prove it.

A row is **stale** when a file that it exercises has changed since it ran: its module, everything that this imports or
starts, the contracts and the pinned versions of dependencies. Comments, docstrings and blank lines do not count.
"""
COLUMNS = ("row", "must never happen", "count", "came out", "planted bugs", "seconds", "date", "commit", "sources")


@dataclass
class Kept:
    """All results, and which sources they were last compared with."""

    rows: dict[str, Entry] = field(default_factory=dict)
    compared: Entry = field(default_factory=dict)
    """The commit, the names of all rows there, and for each that has run the digest of the files that it exercises."""

    def text(self) -> str:
        return json.dumps({"compared": self.compared, "rows": self.rows}, indent=1, ensure_ascii=False) + "\n"

    def stale(self, row: str) -> bool:
        """Whether its files have changed, as of the last comparison."""
        return bool(self.rows[row]["digest"] != self.compared["digests"].get(row))


@dataclass(frozen=True)
class Shelf:
    """Where results lie: one JSON file and the page beside it."""

    names: Sequence[str]
    folder: Path = RESULTS
    root: Path = ROOT

    @property
    def json(self) -> Path:
        return self.folder / "assurance.json"

    @property
    def page(self) -> Path:
        return self.folder / "assurance.md"

    def read(self) -> Kept:
        found = json.loads(self.json.read_text()) if self.json.exists() else {}
        return Kept(found.get("rows", {}), found.get("compared", {}))

    def keep(self, row: str, entry: Entry) -> None:
        """One row's result, at once; two runs beside each other lose nothing."""
        self._change(lambda kept: kept.rows.__setitem__(row, entry))

    def compare(self) -> None:
        """The page again, with each row marked by the files as they are now."""
        self._change(lambda kept: None)

    def _change(self, change: Callable[[Kept], None]) -> None:
        with _alone(self.folder):
            kept = self.read()
            change(kept)
            kept.rows = {name: kept.rows[name] for name in self.names if name in kept.rows}
            tree = Tree(self.root)
            digests = {name: tree.digest_of(name, entry["loaded"]) for name, entry in kept.rows.items()}
            kept.compared = {"commit": version(self.root), "names": list(self.names), "digests": digests}
            for path, text in ((self.json, kept.text()), (self.page, page(kept))):
                new = path.with_suffix(".new")
                new.write_text(text)
                new.replace(path)

    def state(self, row: str, tree: Tree) -> str:
        """fresh, stale, failed, or never run; by the files as they are now."""
        entry = self.read().rows.get(row)
        if entry is None:
            return "never run"
        if entry["digest"] != tree.digest_of(row, entry["loaded"]):
            return "stale"
        return "fresh" if entry["passed"] else "failed"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def version(root: Path = ROOT) -> str:
    """The commit; "-dirty" behind it when something that a row could exercise is not committed."""

    def git(*words: str) -> str:
        found = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
        return found.stdout.strip()

    if not (root / ".git").exists():
        return "unknown-dirty"
    places = [folder for folder in {*PYTHON_FOLDERS, *DATA_FOLDERS, PINNED} if (root / folder).exists()]
    changed = git("status", "--porcelain", "--untracked-files=all", "--", *places)
    return git("rev-parse", "HEAD") + ("-dirty" if changed else "")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def count_of(tried: str) -> int:
    """The first number in what a row says that it tried."""
    found = re.search(r"\d[\d,]*", tried)
    return int(found.group().replace(",", "")) if found else 0


# -- the page --------------------------------------------------------------------------------------


def page(kept: Kept) -> str:
    """The table that people read: nothing in it that is not in the JSON."""
    commit, *dirty = kept.compared["commit"].split("-")
    known = f"commit {commit[:10]}" + (" with changes that are not committed" if dirty else "")
    lines = [f"\nCompared with the sources of {known}. Below: what each row tried, and what came out.\n"]
    lines += [_line(COLUMNS), "|---" * len(COLUMNS) + "|"]
    for name in kept.compared["names"]:
        if name not in kept.rows:
            lines.append(_line((f"`{name}`", "**never run**", *[""] * (len(COLUMNS) - 2))))
            continue
        entry = kept.rows[name]
        caught = f"{sum(entry['planted'].values())} of {len(entry['planted'])} caught" if entry["planted"] else ""
        cells = (
            f"`{name}`", entry["row"], f"{entry['count']:,}", "held" if entry["passed"] else "**FAILED**", caught,
            f"{entry['seconds']} ({entry['cpu_seconds']})", entry["date"], entry["commit"][:10],
            "**stale**" if kept.stale(name) else "unchanged",
        )  # fmt: skip
        lines.append(_line(cells))
    details = (_detail(name, kept.rows[name]) for name in kept.compared["names"] if name in kept.rows)
    return HEADER + "\n".join(lines) + "\n" + "".join(details)


def _detail(name: str, entry: Entry) -> str:
    planted = [f"- planted: {bug}: {'caught' if ok else '**missed**'}" for bug, ok in entry["planted"].items()]
    note = [f"- {entry['note']}"] if entry["note"] else []
    lines = [f"- tried: {entry['tried']}", f"- came out: {entry['figure']}", *note, *planted]
    return f"\n## {name}\n\n" + "\n".join(line.replace("\n", " ") for line in lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"


# -- what an entry must be -------------------------------------------------------------------------

KINDS: dict[str, type | tuple[type, ...]] = {
    "row": str, "count": int, "tried": str, "figure": str, "violations": int, "planted": dict, "note": str,
    "passed": bool, "died": str, "seconds": int, "cpu_seconds": int, "date": str, "commit": str, "digest": str,
    "loaded": list, "share": float, "argv": list,
}  # fmt: skip
FORMS = {
    "commit": r"[0-9a-f]{40}",
    "digest": r"[0-9a-f]{64}",
    "date": r"20\d\d-[01]\d-[0-3]\d [0-2]\d:[0-5]\d",
}


def faults_of(row: str, entry: Entry) -> list[str]:
    """Why the runner cannot have written this entry; empty if it can."""
    found = [f"{name} is missing" for name in KINDS.keys() - entry.keys()]
    found += [f"{name} is nothing that the runner writes" for name in entry.keys() - KINDS.keys()]
    found += [f"{name} is no {kind}" for name, kind in KINDS.items() if name in entry and type(entry[name]) is not kind]
    if found:
        return found
    found += [f"{name} is {entry[name]!r}" for name, form in FORMS.items() if not re.fullmatch(form, entry[name])]
    if entry["share"] != 1.0:
        found.append(f"share is {entry['share']}, not 1")
    if entry["argv"] != [row]:
        found.append(f"argv is {entry['argv']}, not [{row!r}]")
    if re.search(r"by hand|entered from", " ".join((entry["note"], entry["figure"], entry["tried"]))):
        found.append("it was entered by hand")
    if entry["count"] != count_of(entry["tried"]) or (entry["count"] < 1 and not entry["died"]):
        found.append(f"count is {entry['count']}, and {entry['tried']!r} was tried")
    sound = not entry["died"] and entry["violations"] == 0 and all(ok is True for ok in entry["planted"].values())
    if entry["passed"] != sound:
        found.append("passed does not follow from violations and planted bugs")
    if min(entry["seconds"], entry["cpu_seconds"]) < 0:
        found.append("no time passed")
    return found
