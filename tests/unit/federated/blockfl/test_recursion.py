"""The limit of recursion stays what it was, whatever is imported."""

from __future__ import annotations

import subprocess
import sys

CHECK = """
import json, sys
before = sys.getrecursionlimit()
from noisebank.ledger.node import Node
Node("http://127.0.0.1:1")
from noisebank.federated.blockfl.sortition import _load_curve
_load_curve()
assert sys.getrecursionlimit() == before, sys.getrecursionlimit()
try:
    json.loads("[" * 200_000)
except RecursionError:
    print("refused")
"""


def test_libraries_do_not_let_brackets_end_the_process():
    said = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "refused\n"), said.stderr
