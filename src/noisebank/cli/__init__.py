"""The command line: one module per top-level command, named like it; `main` joins them, `render` prints results."""
