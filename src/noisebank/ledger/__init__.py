"""The ledger: one contract that decides every charge, executed in this process (`embedded`) or on a chain (`rpc`)."""
