"""Whoever holds data and obeys somebody else, against somebody who may choose every field of every message."""
