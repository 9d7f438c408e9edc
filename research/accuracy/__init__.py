"""Accuracy-driven budgets (P3): its tables, its leak, and what an honest method costs."""
