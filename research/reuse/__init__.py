"""Noise reuse (P0): Table II through both planners and the contract."""
