"""Privacy without a trusted bank: local mechanisms, where each device protects its own answer."""
