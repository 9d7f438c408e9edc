"""The only room with a door to the data."""
