"""Published results, reproduced: each study as values, tables beside what the paper says."""
