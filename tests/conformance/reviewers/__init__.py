"""A third list of questions, in PostgreSQL's own words: PostgreSQL says what is right."""
