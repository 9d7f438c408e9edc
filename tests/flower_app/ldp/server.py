"""The server: runs the task and writes down what came of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ldp.terms import TASK
from noisebank.federated.fedsgd.flower_server import LdpFedSgd, server_app


def finished(strategy: LdpFedSgd, result: Any) -> None:
    plain = {
        "counted": strategy.report_count,
        "groups": strategy.descent.steps_taken,
        "left_out": strategy.left_out,
        "model": [float(weight) for weight in result.arrays.to_numpy_ndarrays()[0]],
    }
    out = Path(os.environ["LDP_OUT"])
    out.with_suffix(".part").write_text(json.dumps(plain))
    out.with_suffix(".part").rename(out)


app = server_app(TASK, finished, patience=120.0)
