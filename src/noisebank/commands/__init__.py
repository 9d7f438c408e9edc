"""The commands, a module a concern. Everything heavy is imported inside the command that needs it."""
