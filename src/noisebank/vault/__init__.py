"""The vault: openings, requests and sealed answers. What must not be public and must not be lost. See `vault.Vault`."""
