"""From a wish to a plan: pure functions of public values and released answers."""
