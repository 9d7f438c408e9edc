"""`python -m noisebank.audit`: the verifier alone. It imports nothing that reads data, answers or requests."""

from noisebank.commands.verifying import verify

if __name__ == "__main__":
    verify(prog_name="python -m noisebank.audit")
