"""The SDK: a bank behind an HTTP service, with the verbs of the Python API, sync and async.

It knows what goes over the wire and nothing of how a bank works.
"""
