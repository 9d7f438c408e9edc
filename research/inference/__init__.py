"""Inference from earlier answers (P1): its example and experiments, beside the bank's planner."""
