"""A hospital: patients, their stays, and the public table of regions."""
