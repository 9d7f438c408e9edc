"""Three small worlds with the questions that people ask of them: a hospital, a statistics office, a meter platform.

Each has tables from a generator with a seed, a policy for each table that holds people's rows, and twenty questions.
`python -m examples FOLDER` writes them. Tests, tutorial and notebooks use the same ones.
"""
