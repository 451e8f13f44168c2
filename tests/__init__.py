"""Tests, and the rules they enforce; see tests/README.md for what each folder asks."""
