"""The ground floor, used by every other package: exact units, errors, digests, randomness, durable SQLite.

Read `units` first (all money is an integer), then `errors` (one tree) and `entropy` (the one door for randomness).
"""
