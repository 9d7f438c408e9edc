"""Papers, figures and benches: run by `python -m research` from the project's folder, in no wheel."""
