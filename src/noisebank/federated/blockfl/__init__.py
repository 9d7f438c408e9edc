"""Crowdsourced learning with its books on the ledger (P4, chapter 5): tasks, members, lots, verdicts, averages.

Everything that decides something is integer arithmetic that anybody can repeat from the ledger and the stored models:
`models` and `krum` for verdicts and averages, `lots` for who sits on a committee, `reputation` for who gains. What is
trained on a device is in `network`, `device` and `edge`, or in `sound` for differential privacy of whole examples.
"""
