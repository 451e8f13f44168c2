"""One collective over one group of ranks: seconds."""
