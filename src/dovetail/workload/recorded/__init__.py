"""Models recorded by other tools: what ran, step by step, and the graph that comes of it."""
