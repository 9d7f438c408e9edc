"""The verifier: checks a journal, or a contract on a chain, without trusting the bank or its vault.

Read `verification` first; `recount` does the books again, event by event.
"""
