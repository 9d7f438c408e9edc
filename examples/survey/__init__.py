"""A statistics office: persons of a survey, and the public table of cantons."""
