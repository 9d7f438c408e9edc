"""`make assurance`: every row at its full count; writes docs/results/assurance.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from assurance.report import Finding

ROWS = (
    "overspend", "crashes", "cube_crashes", "strace_kills", "power_loss", "kill9", "second_sample", "mu_audit",
    "sampler_fit", "low_bits", "sensitivity_audit", "data_independence", "blur_attack", "bad_values", "tampering",
    "revoked_person", "memory_soak",
)  # fmt: skip
RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT, PAGE = RESULTS / "assurance.json", RESULTS / "assurance.md"

HEADER = """\
# Assurance: what must never happen, measured

Written by `make assurance`; `python -m assurance ROW` runs one row again. The last column is the commit that a row ran
on: rows of different commits were not one run, and `-dirty` means a work tree with uncommitted changes. Each planted
bug must be *caught* by the very check that passes for the real code. Audits can disprove privacy, never prove it.

| must never happen | tried | came out | planted bugs | seconds | commit |
|---|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="assurance", description=__doc__)
    parser.add_argument("rows", nargs="*", help="only these rows; the others stay as they were")
    parser.add_argument("--share", type=float, default=1.0, help="share of the full counts (nothing is written then)")
    options = parser.parse_args()
    failed = 0
    wanted = [row for row in ROWS if not options.rows or row in options.rows]
    for row in wanted:
        print(f"{row} ...", flush=True)
        started = time.perf_counter()
        finding: Finding = getattr(import_module(f"assurance.{row}"), row)(options.share)
        seconds = time.perf_counter() - started
        tell(finding, seconds)
        failed += not finding.passed
        if options.share == 1.0:
            keep(row, finding, seconds)
    print(f"{len(wanted) - failed} passed, {failed} failed")
    return 1 if failed else 0


def tell(finding: Finding, seconds: float) -> None:
    """On the terminal."""
    print(f"  {'ok' if finding.passed else 'FAILED'}: {finding.tried}: {finding.figure} ({seconds:.0f} s)", flush=True)
    for bug, caught in finding.planted.items():
        print(f"    planted {bug}: {'caught' if caught else 'MISSED'}", flush=True)


def keep(row: str, finding: Finding, seconds: float) -> None:
    """Into the JSON file, and the page made anew from it."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept[row] = {**asdict(finding), "passed": finding.passed, "seconds": round(seconds), "commit": commit()}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    write_page(kept)


def write_page(kept: dict[str, dict[str, Any]]) -> None:
    """The table that people read."""
    lines = []
    for name in ROWS:
        if name in kept:
            entry = kept[name]
            planted = "<br>".join(f"{bug}: {'caught' if ok else '**missed**'}" for bug, ok in entry["planted"].items())
            figure = entry["figure"] if entry["passed"] else f"**FAILED** {entry['figure']}"
            note = f"<br>{entry['note']}" if entry["note"] else ""
            cells = (entry["row"], entry["tried"], figure + note, planted, str(entry["seconds"]), entry["commit"])
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    PAGE.write_text(HEADER + "\n".join(lines) + "\n")


def commit() -> str:
    """Which version this was. The results themselves, which the rows before have written, are no change of it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=RESULTS.parents[1], capture_output=True, text=True).stdout.strip()

    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results")
    return (git("describe", "--always") or "unknown") + ("-dirty" if dirty else "")


if __name__ == "__main__":
    sys.exit(main())
