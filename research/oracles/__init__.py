"""What our numbers are held against, recomputed: numpy, scipy and the papers' formulas, nothing of noisebank."""
