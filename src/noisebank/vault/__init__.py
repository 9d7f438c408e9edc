"""The vault: what must not be public and must not be lost."""
