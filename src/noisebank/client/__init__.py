"""The SDK: a client of a bank behind an HTTP service, sync and async, with the methods of the Python API.

It knows the HTTP API and nothing of how a bank works.
"""
