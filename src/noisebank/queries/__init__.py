"""From SQL text to canonical queries (`sql`, `derived`), and their sensitivity by the policy alone (`sensitivity`).

Equivalent SQL gives the same canonical query, hence the same digest and the same price. Nothing here opens data.
"""
