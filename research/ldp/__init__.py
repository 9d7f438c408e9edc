"""Local mechanisms (P4, chapter 3): variances, crossovers, mean estimation."""
