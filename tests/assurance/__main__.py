"""`make assurance`: every row at its full count; writes docs/results/assurance.md."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from assurance.report import Finding

ROWS = (
    ("overspend", "overspend"),
    ("crashes", "crashes"),
    ("strace_kills", "strace_kills"),
    ("power_loss", "power_loss"),
    ("kill9", "kill9"),
    ("second_sample", "second_sample"),
    ("mu_audit", "mu_audit"),
    ("sampler_fit", "sampler_fit"),
    ("low_bits", "low_bits"),
    ("sensitivity_audit", "sensitivity_audit"),
    ("data_independence", "data_independence"),
    ("blur_attack", "blur_attack"),
    ("bad_values", "bad_values"),
    ("tampering", "tampering"),
)
TARGET = Path(__file__).parents[2] / "docs" / "results" / "assurance.md"

HEADER = """\
# Assurance: what must never happen, measured

Written by `make assurance`{share}. Each row was tried as often as it says, and each planted bug must be
*caught* by the very check that passes for the real code. Audits can disprove privacy, never prove it.

Machine: {machine}, {cores} cores, Python {python}.

| must never happen | tried | came out | planted bugs | seconds |
|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="assurance", description=__doc__)
    parser.add_argument("rows", nargs="*", help="only these rows (nothing is written then)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the full counts")
    options = parser.parse_args()
    table, failed = [], []
    for module, function in ROWS:
        if options.rows and module not in options.rows:
            continue
        print(f"{module} ...", flush=True)
        started = time.perf_counter()
        finding: Finding = getattr(import_module(f"assurance.{module}"), function)(options.share)
        seconds = time.perf_counter() - started
        print(
            f"  {'ok' if finding.passed else 'FAILED'}: {finding.tried}: {finding.figure} ({seconds:.0f} s)", flush=True
        )
        for bug, caught in finding.planted.items():
            print(f"    planted {bug}: {'caught' if caught else 'MISSED'}", flush=True)
        planted = "<br>".join(
            f"{bug}: {'caught' if caught else '**missed**'}" for bug, caught in finding.planted.items()
        )
        note = f"<br>{finding.note}" if finding.note else ""
        verdict = "" if finding.passed else "**FAILED** "
        table.append(
            f"| {finding.row} | {finding.tried} | {verdict}{finding.figure}{note} | {planted} | {seconds:.0f} |"
        )
        if not finding.passed:
            failed.append(module)
    if not options.rows:
        share = "" if options.share == 1.0 else f" at {options.share:g} of the full counts"
        header = HEADER.format(
            share=share, machine=platform.machine(), cores=os.cpu_count(), python=platform.python_version()
        )
        TARGET.write_text(header + "\n".join(table) + "\n")
        print(f"written: {TARGET.name}")
    print(f"{len(table) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
