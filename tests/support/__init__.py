"""Everything that tests share."""
