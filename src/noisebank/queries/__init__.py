"""From SQL text to canonical queries (`sql`, `derived`), and their sensitivity by the policy alone (`sensitivity`).

`selects` is where to begin: a SELECT is a list of aggregates, each with its questions, and what is computed from their
numbers (`result_expressions`). What is computed from one row: `row_expressions`. Equivalent SQL gives the same
canonical query, hence the same digest and the same price. Nothing here opens data.
"""
