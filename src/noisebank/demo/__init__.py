"""What `noisebank demo` makes and asks: a survey, a clinic, phones."""
