"""A pytest plugin that collects tests once and then forks for each run: a mutant costs what its tests cost, not what
starting Python and importing everything costs.

The mistake is in the file when a run begins, so that programs which tests start have it, and modules that are imported
late. Of modules that are imported already, the functions get their new code in the child. A mistake that is in no
function's body (a constant, a default, a class) is refused here: it needs a new process.

Requests come as lines of JSON on standard input, answers go to the file descriptor in `NOISEBANK_MUTANT_ANSWERS`.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tools.mutants.plugin import prepare_run

ANSWERS = "NOISEBANK_MUTANT_ANSWERS"
CANNOT_PATCH = 9
Place = tuple[str, int]
"""The qualified name of a function, and which of several of that name."""


def pytest_configure(config: pytest.Config) -> None:
    prepare_run()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    items = {item.nodeid: item for item in session.items}
    with os.fdopen(int(os.environ.pop(ANSWERS)), "w", buffering=1) as answers:
        gc.collect()
        gc.freeze()  # what is here is not copied in each child
        print(json.dumps({"tests": len(items)}), file=answers)
        for line in sys.stdin:
            print(json.dumps(answer_request(session, items, json.loads(line))), file=answers)
    return True


def answer_request(session: pytest.Session, items: dict[str, pytest.Item], request: dict[str, object]) -> object:
    """Runs what a request names in a child; says how it ended, as `Run` has it."""
    targets, without = request["targets"], request["without"]
    assert isinstance(targets, list) and isinstance(without, list)
    chosen = list(choose_items(items, targets, set(map(str, without))))
    scratch = Path(tempfile.mkdtemp(prefix="run-", dir=str(request["scratch"])))
    child = os.fork()
    if not child:
        _run_child(session, chosen, request, scratch)
    code, seconds = _wait_for(child, float(str(request["patience"])))
    notes = {name: (scratch / name).read_text() if (scratch / name).exists() else "" for name in ("running", "failed")}
    tail = (scratch / "log").read_text(errors="replace")[-1500:] if (scratch / "log").exists() else ""
    shutil.rmtree(scratch, ignore_errors=True)
    return {"code": code, "cpu_seconds": seconds, "tail": tail, "count": len(chosen), **notes}


def choose_items(items: dict[str, pytest.Item], targets: list[str], without: set[str]) -> Iterator[pytest.Item]:
    """Tests by their names, and all of a file, in the order of the targets; file by file."""
    files = dict.fromkeys(target.partition("::")[0] for target in targets)
    for file in files:
        if file in without:
            continue
        whole = [name for name in items if name.partition("::")[0] == file] if file in targets else []
        names = dict.fromkeys([*(target for target in targets if target.startswith(f"{file}::")), *whole])
        yield from (items[name] for name in names if name in items and name not in without)


def _run_child(session: pytest.Session, chosen: list[pytest.Item], request: dict[str, object], scratch: Path) -> None:
    code = 1
    try:
        os.setsid()
        log = os.open(scratch / "log", os.O_RDWR | os.O_CREAT)
        silence = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((silence, 0), (log, 1), (log, 2)):
            os.dup2(old, new)
        os.environ["TMPDIR"], tempfile.tempdir = str(scratch), None
        factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp, factory._given_basetemp = None, scratch / "pytest"
        gc.unfreeze()  # what is frozen is not listed
        file, original = str(request["file"]), str(request["original"])
        if file and not replace_code(file, original.encode(), Path(file).read_bytes()):
            code = CANNOT_PATCH
        else:
            code = _run_items(session, chosen, scratch)
    except BaseException as error:
        os.write(2, repr(error).encode())
    finally:
        os._exit(code)


def _run_items(session: pytest.Session, chosen: list[pytest.Item], scratch: Path) -> int:
    session.items = chosen
    for number, item in enumerate(chosen):
        following = chosen[number + 1] if number + 1 < len(chosen) else None
        (scratch / "running").write_text(item.nodeid)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            (scratch / "failed").write_text(item.nodeid)
            return 1
    return 0


def _wait_for(child: int, patience: float) -> tuple[int | None, float]:
    """The exit code, None for a hang, and the CPU time of it and its children; nothing of it is left afterwards."""
    deadline, hangs = time.monotonic() + patience, False
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline and not hangs:
            hangs = True
            _end_group(child)
        time.sleep(0.02)
    _end_group(child)
    return None if hangs else os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


# -- code ------------------------------------------------------------------------------------------


def replace_code(file: str, original: bytes, mutated: bytes) -> bool:
    """Gives functions of an imported module the code of the mutated source. False: that cannot be done."""
    if not is_imported(file):
        return True
    old, new = list_codes(compile(original, file, "exec")), list_codes(compile(mutated, file, "exec"))
    if old.keys() != new.keys():
        return False
    places = {(code.co_qualname, code.co_firstlineno): place for place, code in old.items()}
    count = 0
    for function in [each for each in gc.get_objects() if isinstance(each, FunctionType)]:
        code = function.__code__
        place = places.get((code.co_qualname, code.co_firstlineno)) if code.co_filename == file else None
        if place is None or old[place] == new[place]:
            continue
        try:
            function.__code__ = new[place]
        except ValueError:  # other variables of its surroundings
            return False
        count += 1
    return count > 0


def is_imported(file: str) -> bool:
    """Whether a module of this process comes from this file."""
    return any(getattr(module, "__file__", None) == file for module in list(sys.modules.values()))


def list_codes(code: CodeType) -> dict[Place, CodeType]:
    """All functions, classes and the like in it, by place."""
    codes: dict[Place, CodeType] = {}

    def add(outer: CodeType) -> None:
        for constant in outer.co_consts:
            if isinstance(constant, CodeType):
                name = constant.co_qualname
                codes[name, sum(1 for known, _ in codes if known == name)] = constant
                add(constant)

    add(code)
    return codes
