"""The ledger: a contract that decides, and chains that execute and keep it."""
