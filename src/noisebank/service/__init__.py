"""The bank as an HTTP service: the JSON API, the web pages, sign-in and rate limits.

`app` builds the application and `server` runs it. Both the API and the pages call `operations`, and whatever spends
goes through `noisebank.account.account`.
"""
