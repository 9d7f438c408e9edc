"""How fast the parts are, as ratios in one run."""
