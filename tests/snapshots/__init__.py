"""Snapshots of what outsiders see, taken through public doors.

Each test compares what a door gives now with a file under data/. A difference is a mistake or a change for users: a
snapshot may change only in a commit that lists the change and why.

    PYTHONPATH=src:tests:. python -m snapshots            compare, as `make test` does
    PYTHONPATH=src:tests:. python -m snapshots --write    write what differs anew, then look at `git diff`
    PYTHONPATH=src:tests:. python -m snapshots --bank     make a new bank, exports and reports, then --write

data/tables  tables, policies, schema and record        data/bank     a bank as an earlier version left it, test keys
data/exports its journal, receipts, openings, reports   data/seen     texts and JSON that doors gave

`--bank` is needed only when a new format makes old banks unreadable on purpose: the bank is the promise that banks of
people who upgrade still open. Everything that a rename or a move may have to touch here is in doors.py.
"""
