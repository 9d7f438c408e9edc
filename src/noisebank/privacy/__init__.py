"""Noise: its privacy (`calibration`, `odometer`) and its draws (`noise`). Its intervals: `noisebank.core.intervals`."""
