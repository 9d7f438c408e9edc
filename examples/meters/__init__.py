"""A platform for electricity meters: hourly readings, and the meters themselves."""
