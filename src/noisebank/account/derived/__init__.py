"""What a SELECT computes from released answers: averages, variances, quantiles, expressions and rows, with intervals.

Pure functions of released numbers and public facts: nothing here opens data, spends, or knows an account. Begin with
`tables` (rows), `expressions` (their items) and `aggregates` (AVG, quantiles); `gaussians`, `moments` and
`interval_arithmetic` do the arithmetic.
"""
