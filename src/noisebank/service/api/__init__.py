"""The routes of the HTTP API, one module per subject.

Who may call what is decided in `service.auth`; what is sent is described in `service.schemas`.
"""
