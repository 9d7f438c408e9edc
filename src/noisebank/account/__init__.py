"""One account: the path from a question to a charged, sealed and published answer, and everything said about it.

`pipeline` is the path, a batch at a time; `plain` and `cube` are its two strategies; `completion` brings reservations
to published answers. `coarse_looks` takes the path several times, where the noise that is needed depends on the data.
`results` and `derived` compute what a SELECT shows. `account` is what users hold, `quotes` prices without spending,
`statement` tells the history, `recovery` finishes what a crash cut off.
"""
