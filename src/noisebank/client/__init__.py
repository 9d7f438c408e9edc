"""The SDK: a client of a bank behind an HTTP service, sync and async, with the methods of the Python API.

It knows the HTTP API and nothing of how a bank works.
"""

import sys

if "httpx" not in sys.modules:
    # httpx imports its own command line where click and rich are installed: .05 s of CPU, a third of ours.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        import httpx  # noqa: F401
    finally:
        del sys.modules["httpx._main"]
