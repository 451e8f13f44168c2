"""Dovetail predicts and co-designs distributed deep-learning training.

Give it a model, a cluster and a plan, and it answers with iteration time, memory, energy and what limits them; give it
a budget, and it searches for the plan and the chip. Import from the layers (`dovetail.evaluate`, `dovetail.hardware`):
this package imports nothing itself, so that starting a command costs only what that command uses.
"""

__version__ = "0.1.0"
