"""Every row of docs/assurance.md as a function with a count: short in `make test`, full in `make assurance`."""
