"""Noise: its privacy (`calibration`, `odometer`), its draws (`noise`), and confidence intervals (`intervals`)."""
