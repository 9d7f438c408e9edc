"""The vault keeps openings, requests and sealed answers: they must not become public and must not be lost.

`vault.Vault` states what every implementation guarantees.
"""
