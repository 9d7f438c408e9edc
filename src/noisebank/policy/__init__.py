"""The public facts of a table: columns with bounds and keys, the unit of privacy, the budget, named queries.

`model` holds them, `file` reads them from TOML, `draft` proposes a file for a new table. No module here opens a table.
"""
