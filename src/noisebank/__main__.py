"""`python -m noisebank` is the command line."""

from noisebank.cli import main

main()
