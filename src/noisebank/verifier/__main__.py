"""`python -m noisebank.verifier`: the verifier alone. It imports nothing that reads data, answers or requests."""

from noisebank.cli.verify import verify

if __name__ == "__main__":
    verify(prog_name="python -m noisebank.verifier")
