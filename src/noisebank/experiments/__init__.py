"""Demonstrations and reproductions, all through the product's own code."""
