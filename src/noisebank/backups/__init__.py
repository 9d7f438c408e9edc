"""Backups: a bank copied while it is in use, and put back only after every check."""
