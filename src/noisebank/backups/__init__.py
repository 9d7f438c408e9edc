"""Backups: `making` copies a bank while it is in use, `restoring` puts a copy back after every check."""
