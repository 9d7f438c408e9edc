"""What noise costs and what it promises: calibration, conversion, scales and intervals."""
