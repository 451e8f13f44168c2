"""The placement program, exact: a chain of layers cut into stages and replicated over devices, as PHAZE has it."""
