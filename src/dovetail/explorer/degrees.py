"""The decisions of a plan as fields: each can be taken by hand, and the figures answer."""

from __future__ import annotations

from typing import Any

from dovetail.explorer.elements import box, choice_field, options_html, words
from dovetail.explorer.live import Live

# Options of the command line, with their labels: so `--tp 8` and the field TP are one thing.
LABELS = {
    "tp": "TP",
    "pp": "PP",
    "dp": "DP",
    "cp": "CP",
    "ep": "EP",
    "vpp": "VPP",
    "zero": "ZeRO",
    "microbatch": "Microbatch",
    "recompute": "Recompute",
    "schedule": "Schedule",
}


class Degrees:
    """A field for each decision, with what can be chosen for the plan on the page."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._fields: dict[str, Any] = {}
        words("The plan by hand", "h2")
        with box("degrees"):
            for option, label in LABELS.items():
                self._fields[option] = choice_field(f"plan-{option}", label, {}, "", self._edit(option))
        words("Copies (DP) fill the devices; set DP, and PP takes up the rest.", "p", "note")

    def show(self) -> None:
        """What the plan on the page has decided."""
        if self._live.shown is None:
            return
        for option, (values, chosen) in self._live.shown.choices.items():
            content = options_html({"": [(value, value) for value in values]}, chosen)
            field = self._fields[option]
            field.content = content
            field.parent_slot.parent.set_visibility(len(values) > 1)

    def _edit(self, option: str) -> Any:
        async def edit(value: str) -> None:
            await self._live.edit(option, value)
            self.show()

        return edit
