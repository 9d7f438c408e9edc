"""Chained-DP, the relay of users (P2), recomputed claim by claim."""
