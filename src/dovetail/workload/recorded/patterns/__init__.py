"""What several steps amount to: one file a pattern, each a function that takes its nodes together in a `Flow`."""
