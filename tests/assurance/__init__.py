"""Every row of docs/results/assurance.md as a function with a count: short in `make test`, full in `make assurance`."""
