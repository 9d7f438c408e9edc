"""Strategies: what a look at a whole cube measures, as whole-numbered rows over its cells.

`axes` has the rows of one axis, `kronecker` joins them to a cube's, `looks` leaves out what is paid already.
"""
