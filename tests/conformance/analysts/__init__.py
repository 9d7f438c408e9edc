"""Questions that analysts write beside the sixty of `examples/`: each answered with the right value, or refused."""
