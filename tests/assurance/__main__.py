"""`make assurance`: every row at its full count; writes docs/results/assurance.json and assurance.md."""

from __future__ import annotations

import argparse
import signal
import sys

from assurance.exercised import Tree
from assurance.results import Shelf, version
from assurance.runner import Runner, Uncommitted

ROWS = (
    "overspend",
    "crashes",
    "cube_crashes",
    "strace_kills",
    "power_loss",
    "kill9",
    "second_sample",
    "mu_audit",
    "sampler_fit",
    "low_bits",
    "sensitivity_audit",
    "data_independence",
    "blur_attack",
    "bad_values",
    "tampering",
    "stopping_rules",
    "additivity",
    "public_ledger",
    "look_ledger",
    "hostile_server",
    "hostile_host",
    "revoked_person",
    "memory_soak",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="assurance", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows; the others stay as they were")
    parser.add_argument("--again", action="store_true", help="also rows that passed on these very files")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="rows at once, each in its own process")
    parser.add_argument("--share", type=float, default=1.0, help="share of the full counts (nothing is written then)")
    parser.add_argument("--list", action="store_true", help="show the state of each row, and run none")
    parser.add_argument("--page", action="store_true", help="compare all rows with the files of now, and run none")
    options = parser.parse_args()
    if unknown := sorted(set(options.rows) - set(ROWS)):
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    wanted = [row for row in ROWS if not options.rows or row in options.rows]
    shelf = Shelf(ROWS)
    if options.list:
        list_rows(shelf, wanted)
        return 0
    if options.page:
        shelf.compare()
        print(f"{shelf.page} now says what holds for {version()}")
        return 0
    if options.share == 1.0 and not options.again:
        tree = Tree()
        fresh = [row for row in wanted if shelf.state(row, tree) == "fresh"]
        wanted = [row for row in wanted if row not in fresh]
        if fresh:
            print(f"passed on these files already: {', '.join(fresh)} (--again runs them)")
    runner = Runner(shelf, options.share, max(1, options.jobs))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        runner.run(wanted)
    except KeyboardInterrupt:
        print("stopped; rows that had ended are kept, the next run goes on from there")
        return 130
    except Uncommitted as error:
        print(f"nothing is recorded: {error}")
        return 2
    print(f"{len(wanted) - len(runner.failed)} passed, {len(runner.failed)} failed {' '.join(runner.failed)}".rstrip())
    return 1 if runner.failed else 0


def list_rows(shelf: Shelf, rows: list[str]) -> None:
    """One line per row."""
    tree, kept = Tree(), shelf.read().rows
    print(f"{'row':<20} {'state':<10} {'count':>9}  {'date':<16}  {'commit':<10} {'seconds':>8} {'CPU':>7}")
    for row in rows:
        line = f"{row:<20} {shelf.state(row, tree):<10}"
        if entry := kept.get(row):
            numbers = f"{entry['seconds']:>8} {entry['cpu_seconds']:>7}"
            line += f" {entry['count']:>9,}  {entry['date']:<16}  {entry['commit'][:10]:<10} {numbers}"
        print(line)


if __name__ == "__main__":
    sys.exit(main())
