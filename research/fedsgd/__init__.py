"""LDP-FedSGD (P4, chapter 3): three models, all mechanisms."""
