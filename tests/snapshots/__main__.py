"""`python -m snapshots`: compare; `--write`: write anew; `--bank`: make a new bank first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from snapshots.comparing import VARIABLE, WRITE
from snapshots.making import make_bank

if __name__ == "__main__":
    if "--bank" in sys.argv:
        make_bank()
    if "--write" in sys.argv or "--bank" in sys.argv:
        os.environ[VARIABLE] = WRITE
    known = "ignore::pytest.PytestAssertRewriteWarning"  # plugins that making a bank has imported already
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-W", known, str(Path(__file__).parent)]))
