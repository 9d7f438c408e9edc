"""The commands, one module per concern. Heavy imports are inside of the commands that need them."""
