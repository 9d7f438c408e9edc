"""`python -m noisebank` is the command line."""

from noisebank.cli.main import main

main()
