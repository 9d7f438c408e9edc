"""The scheduler of the service: fibers of one thread, and batching of like work. Described in ADR 21 and 22.

The batch pipeline of the second half of the move replaces it; nothing new should import it.
"""
