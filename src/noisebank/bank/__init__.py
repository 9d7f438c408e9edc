"""A bank: a folder with its keys, lock, ledger and vault; opening accounts, backups, restoring, key rotation.

`bank` holds `Bank`, `create_bank` and `open_bank`. This package and those above it see data; those below do not.
"""
