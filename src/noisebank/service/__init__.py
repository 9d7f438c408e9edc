"""The bank as a service: HTTP, sign-in, limits. Everything that spends walks the path of `noisebank.account`."""
