"""The data and requests of `noisebank demo`: a survey (`survey_demo`), and for `--serve` a clinic and phones."""
