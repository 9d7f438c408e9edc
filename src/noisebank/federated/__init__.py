"""Privacy without a trusted bank: each device or member protects its own data before anything leaves it.

`ldp` has local mechanisms, `relay` sums of several parties, `fedsgd` learning from local reports, `blockfl` federated
learning on a blockchain; `enrolment` holds the budgets of devices on the ledger.
"""
