"""What every other package uses: exact units, errors, digests, randomness, durable SQLite.

Read `units` first (all money is an integer), then `errors` (one tree) and `entropy` (the only source of randomness).
"""
