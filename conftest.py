"""Modules that cannot be imported without an optional part, and have no doctests to run."""

collect_ignore = ["src/noisebank/federated/fedsgd/flower_server.py", "tests/flower_app"]
