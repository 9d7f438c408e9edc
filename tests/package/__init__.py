"""Uses each door of the built wheel in an environment of its own: `tools/package-test` runs `package.doors`."""
