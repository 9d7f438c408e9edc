"""Federated learning with its records on a blockchain (P4, chapter 5), for posters, members and verifiers of tasks.

Every decision is integer arithmetic that anybody can repeat from the ledger and the stored models: verdicts and
averages (`models`, `krum`), committees (`sortition`), gains and losses (`reputation`). Training is in `network`,
`device` and `edge`, or in `dp_sgd` for differential privacy of whole examples. Start reading at `member`; the protocol
is in docs/explanation/crowd.md.
"""
