"""`noisebank` and `python -m noisebank` are the command line. Ctrl-C ends it quietly, also while it is being loaded."""

import sys


def main() -> None:
    """Runs the command that the arguments name."""
    try:
        from noisebank.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:  # commands handle their own; nothing is charged while they load
        sys.stderr.write("interrupted; nothing was charged\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
