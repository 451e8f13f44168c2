"""A plan as the YAML file that describes it: every decision, so that what reads it decides nothing."""

from __future__ import annotations

from dovetail.files.text import one_line
from dovetail.files.value_formats import entries_of, yaml_lines
from dovetail.parallel.plan import Plan


def plan_text(plan: Plan, name: str = "") -> str:
    """`plan` in the words of a spec's plan section; `dovetail simulate --plan FILE` makes an equal plan of it."""
    lines = ["# Written by Dovetail; dovetail simulate --plan takes it, and so does plan: in a spec."]
    if name:
        lines.append(f"# For {one_line(name)}.")
    return "\n".join((*lines, *yaml_lines(entries_of(plan, is_whole=True)))) + "\n"
