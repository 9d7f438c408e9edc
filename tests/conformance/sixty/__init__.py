"""The sixty questions of `examples/`, each answered with the right value on exact data, or refused by name."""
