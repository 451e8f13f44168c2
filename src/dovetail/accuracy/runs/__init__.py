"""Published training runs as jobs: what a row of a table of runs says, and what its software is known for."""
