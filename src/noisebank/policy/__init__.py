"""The public facts of a table: columns with bounds and keys, the unit of privacy, the budget, named queries.

`model` holds them, `file` reads them from TOML. No module here opens a table: `noisebank.bank.policy_draft` does, to
propose a file for a new one.
"""
