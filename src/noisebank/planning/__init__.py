"""Plans: the target precision of a request (`pricing`), what reuse saves (`reuse`), and answers inferred in cubes.

Everything here is a function of public numbers and released answers; nothing opens data. `coarse_looks` chooses the
precision where the needed noise depends on the data. Cubes: `serving` turns a query into linear queries over cells,
`inference` prices them, `posterior` and its kin estimate them, `look_buyer` says when a look at a whole cube is earned.
"""
