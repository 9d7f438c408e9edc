"""The data and requests of `noisebank demo`: a survey (`survey_demo`), and what `served_demo` shows besides.

That is a clinic, meters, phones, rounds of a relay and a crowd's task, with a `tour` through them.
"""
