"""Chip, plan and network together: the best design of a whole system, with a bound and what is left below it."""
