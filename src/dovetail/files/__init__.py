"""YAML and JSON into values: the one place that reads what people write.

Whatever a file holds, the answer is a value or one `DovetailError` of one line that says which rule was broken, by
what, and where. pydantic checks shapes here and goes no further: what leaves are the frozen values of the layers above.
"""

from __future__ import annotations

from dovetail.files.chip import load_chip
from dovetail.files.cluster import load_cluster
from dovetail.files.job import Job, load_plan, load_spec, load_workload
from dovetail.files.model import load_model

__all__ = ["Job", "load_chip", "load_cluster", "load_model", "load_plan", "load_spec", "load_workload"]
