"""What `make docs` generates: the reference, from the code itself, and the pages of the notebooks."""
