"""Plans: the target precision of a request (`pricing`), what reuse saves (`reuse`), and answers inferred in cubes.

Everything here is a function of public numbers and released answers; nothing opens data. Cubes: `serving` turns a query
into linear queries over cells, `inference` prices them, `posterior` estimates them.
"""
