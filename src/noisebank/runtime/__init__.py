"""The interpreter of a long-running process: garbage collection and thread switching, and its recursion limit."""
