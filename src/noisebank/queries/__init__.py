"""SQL to canonical queries: same statistic, same digest; sensitivity from the policy alone."""
