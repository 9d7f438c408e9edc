"""The verifier: a ledger in, a verdict out. It trusts neither the bank nor its vault."""
