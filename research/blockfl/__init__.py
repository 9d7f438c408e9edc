"""Federated learning on a blockchain (P4, chapter 5): figures, reputations, attackers."""
