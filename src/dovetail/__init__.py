"""Dovetail predicts distributed deep-learning training.

Give it a model, a cluster and a plan, and it answers with the time of a training step, memory, energy and what limits
them. Import from the layers (`dovetail.evaluate`, `dovetail.files`): this package imports nothing itself, so that
starting a command costs only what that command uses.
"""

__version__ = "0.1.0"
