"""Changes src/ in sampled small ways; nearly all of them must be noticed by the tests.

    tools/mutate-src --record                      once; which tests execute which line, half an hour of CPU time
    tools/mutate-src [--count 100] [--seed 1] [-j 2] [--only 3,7-9] [--list]
    tools/mutate-src --survivors                   after tests were written; the page says both

Works on the commit that is checked out, in throw-away clones of it. Results go to build/mutants/results.jsonl as they
come, and a run that was stopped goes on there. A mutant that was noticed on another commit with the same src/ is not
tried again if the file of tests that noticed it is the same, nor one that is explained. When the whole
sample has been tried, docs/results/mutants.md and mutants.json are written. The exit code is 1 if too many survived.
A recording (build/mutants/recording) serves later commits, too; without one, imports alone say which tests to run.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

from tools.mutants.changes import Mutant, find_again, list_files, list_spots, sample_mutants
from tools.mutants.recording import NEAR, Recording, record_tests
from tools.mutants.report import (
    Journal,
    count_outcomes,
    describe_later,
    describe_run,
    is_enough,
    judge_result,
    list_begun,
    list_earlier,
    read_explanations,
    read_survivors,
    write_page,
)
from tools.mutants.selection import Graph
from tools.mutants.trial import KILLED, MOST_SECONDS, STOPPING, Known, Result, Slot, Slots, find_bad_tests, try_mutant

ROOT = Path(__file__).parents[2]
HOME = Path(__file__).parent
EXPLANATIONS = HOME / "explained.json"
JOURNAL = ROOT / "build" / "mutants" / "results.jsonl"
RECORDED = ROOT / "build" / "mutants" / "recording"
FEW = 5
PAGE = ROOT / "docs" / "results" / "mutants.md"


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tools/mutate-src", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-j", "--jobs", type=int, default=2, help="how many to try at once")
    parser.add_argument("--only", help="of the sample, these: 7, 7-20 or 1,5,9-12; writes no page")
    parser.add_argument("--again", action="store_true", help="try also what was tried on this commit")
    parser.add_argument(
        "--seconds", type=float, default=MOST_SECONDS, help="of tests for one mutant, nearest first, until it survived"
    )
    parser.add_argument(
        "--survivors", action="store_true", help="only what survived according to the page, in the sources of now"
    )
    parser.add_argument("--list", action="store_true", help="show the sample, try nothing")
    parser.add_argument(
        "--record", action="store_true", help="run all tests once, to know which of them execute a line"
    )
    parser.add_argument(
        "--begun", action="store_true", help="add to the page what was tried of samples that were not tried to the end"
    )
    return parser.parse_args()


def parse_numbers(text: str) -> set[int]:
    """`1,5,9-12` as numbers."""
    numbers: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        numbers |= set(range(int(low), int(high or low) + 1))
    return numbers


def record(commit: str, jobs: int) -> None:
    """Runs all tests in a clone."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        slot = Slot(ROOT, commit, Path(folder) / "0")
        record_tests(slot.tree, slot.python, slot.environment, slot.marks, RECORDED, jobs)
    recording = Recording(ROOT, RECORDED)
    print(f"{RECORDED.relative_to(ROOT)}: {len(recording.seconds)} tests, {sum(recording.seconds.values()):.0f} s")


def read_commit() -> str:
    """The commit that is checked out; what is not in it is not tried."""
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src"], cwd=ROOT).returncode:
        raise SystemExit("src/ differs from the commit: commit it first")
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "tests"], cwd=ROOT).returncode:
        print("note: tests/ differ from the commit; only what is committed is run", flush=True)
    words = ["git", "rev-parse", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@cache
def find_object(commit: str, path: str) -> str:
    """The digest of a file or folder in a commit; empty if it is not there."""
    words = ["git", "rev-parse", "--verify", "-q", f"{commit}:{path}"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def try_all(
    todo: list[Mutant], options: argparse.Namespace, journal: Journal, results: dict[int, Result], known: Known
) -> None:
    """Tries them and writes each down as soon as it is judged. Forgets those whose test fails without them, too."""
    explanations, began, total = read_explanations(EXPLANATIONS), time.monotonic(), len(todo)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # a database server of the tests runs as somebody else
        # Collecting all tests pays off from some mutants on.
        slots = Slots(ROOT, journal.commit, Path(folder), max(1, min(options.jobs, total)), forks=total > FEW)
        graph, recording = Graph(ROOT), Recording(ROOT, RECORDED)
        known.recorded = frozenset(test for test in recording.seconds if test.startswith(NEAR))
        _ = graph.distances  # once, before the workers need it

        def judge(mutant: Mutant) -> Result:
            with slots.borrow() as slot:
                return try_mutant(mutant, slot, graph, recording, known, options.seconds)

        with ThreadPoolExecutor(options.jobs) as workers:
            futures = [workers.submit(judge, mutant) for mutant in todo]
            try:
                for number, future in enumerate(as_completed(futures), 1):
                    result = future.result()
                    journal.append(result)
                    results[result.mutant.index] = result
                    outcome, note = judge_result(result, explanations)
                    minutes = (time.monotonic() - began) / 60
                    print(
                        f"[{number}/{total}, {minutes:.0f} min] {outcome} in {result.seconds:.0f} s "
                        f"(CPU {result.cpu_seconds:.0f} s): {result.mutant}\n    {note}",
                        flush=True,
                    )
            except BaseException:
                STOPPING.set()
                workers.shutdown(wait=False, cancel_futures=True)
                raise
        noticing = {result.test for result in results.values()} & known.recorded if not options.only else set()
        with slots.borrow() as slot:
            bad = find_bad_tests(sorted(noticing), slot, known) if noticing else set()
        slots.close()
    if known.bad:
        print("these fail without a mutant, here and now, and did not count:", *sorted(known.bad), sep="\n    ")
    for index in [index for index, result in results.items() if result.test in bad]:
        del results[index]


def try_survivors(options: argparse.Namespace, commit: str) -> int:
    """Tries again what the page says has survived, and adds to the page what came of it."""
    run = json.loads(PAGE.with_suffix(".json").read_text())
    explanations, results = read_explanations(EXPLANATIONS), dict[int, Result]()
    mutants = find_again(ROOT, read_survivors(run))
    print(f"{len(mutants)} of {len(read_survivors(run))} survivors are still there; commit {commit[:12]}", flush=True)
    try_all(mutants, options, Journal(JOURNAL, run["seed"], commit), results, Known())
    save_run(describe_later(run, results.values(), explanations, commit))
    return 0 if all(result.outcome == KILLED for result in results.values()) else 1


def save_run(run: dict[str, Any]) -> None:
    """Writes page and JSON; what they said of other seeds stays, in short."""
    path = PAGE.with_suffix(".json")
    run = {**run, "earlier": list_earlier(run, json.loads(path.read_text()) if path.exists() else {})}
    PAGE.write_text(write_page(run))
    path.write_text(json.dumps(run, indent=1) + "\n")
    print(f"written: {PAGE.relative_to(ROOT)}")


def main() -> int:
    options = read_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    commit = read_commit()
    if options.record:
        record(commit, options.jobs)
        return 0
    if options.survivors:
        return try_survivors(options, commit)
    if options.begun:
        run = json.loads(PAGE.with_suffix(".json").read_text())
        save_run({**run, "begun": list_begun(JOURNAL, run, read_explanations(EXPLANATIONS))})
        return 0
    spots = list_spots(ROOT, list_files(ROOT))
    sample = sample_mutants(ROOT, spots, options.count, options.seed)
    chosen = parse_numbers(options.only) if options.only else {mutant.index for mutant in sample}
    if options.list:
        print("\n".join(str(mutant) for mutant in sample if mutant.index in chosen))
        return 0
    journal = Journal(JOURNAL, options.seed, commit)
    explanations = read_explanations(EXPLANATIONS)
    results = (
        journal.read_settled(
            explanations, lambda other, path: find_object(other, path) == find_object(commit, path) != ""
        )
        | journal.read_results()
    )
    results = {index: result for index, result in results.items() if index <= options.count}
    todo = [mutant for mutant in sample if mutant.index in chosen and (options.again or mutant.index not in results)]
    print(
        f"{len(todo)} mutants to try, of {len(sample)} drawn from {len(spots):,} spots; commit {commit[:12]}",
        flush=True,
    )
    known = Known()
    while todo or not options.only:
        try_all(todo, options, journal, results, known)
        todo = [mutant for mutant in sample if mutant.index in chosen and mutant.index not in results]
        if not todo:
            break
    ordered = [results[index] for index in sorted(results)]
    counts = count_outcomes(ordered, explanations)
    print("\n" + ", ".join(f"{counts[outcome]} {outcome}" for outcome in sorted(counts)))
    if len(ordered) == len(sample) and not options.only:
        facts = {"seed": options.seed, "commit": commit, "count": len(sample), "spots": len(spots)}
        save_run(describe_run(ordered, explanations, facts))
    return 0 if is_enough(counts) else 1


if __name__ == "__main__":
    sys.exit(main())
