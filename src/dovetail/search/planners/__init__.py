"""The best plans for a model on a cluster, with a proven gap: all even ones evaluated, uneven ones best first."""
