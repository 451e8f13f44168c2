"""One operator on one chip: seconds, bytes, joules; vectorised over the rows of a graph."""
