"""The synchronous client is what tools/sync-client makes of the asynchronous one."""

from __future__ import annotations

import subprocess
import sys

from support.paths import ROOT


def test_the_sync_client_is_generated_from_the_async_one() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "sync-client"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
