"""One decision: how the work is cut, which device gets which piece, and what each then holds."""
