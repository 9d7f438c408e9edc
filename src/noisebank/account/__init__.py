"""One account: the path from a question to a charged, sealed and published answer, and everything said about it.

`account` holds `Account`, whose `answers` walks the path one step per line; `plain` and `cube` are the steps, `quotes`
prices without spending, `statement` tells the history, `recovery` finishes what a crash cut off.
"""
