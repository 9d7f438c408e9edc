"""Every Python that finds this folder on its path loads this first, thus also what a recorded test starts."""

import os
import sys
from pathlib import Path

if "NOISEBANK_MUTANT_RECORD" in os.environ and "PYTEST_CURRENT_TEST" in os.environ:
    root = Path(__file__).resolve().parents[3]
    sys.path.append(str(root))
    from tools.mutants.lines import record_process

    sys.path.remove(str(root))
    record_process(root / "src")
