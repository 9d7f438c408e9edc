"""A Flower app as a user would write it."""
