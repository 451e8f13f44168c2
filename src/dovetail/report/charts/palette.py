"""One colour a category, the same in every chart: Okabe and Ito's, which stay apart for most eyes, and patterns."""

from __future__ import annotations

from typing import Any

# Okabe & Ito, "Color Universal Design", 2008 (jfly.uni-koeln.de/color).
BLUE, SKY, GREEN, YELLOW = "#0072b2", "#56b4e9", "#009e73", "#f0e442"
ORANGE, VERMILLION, PURPLE = "#e69f00", "#d55e00", "#cc79a7"
GREY, PALE = "#8a8a8a", "#bdbdbd"  # seen on white and on near black alike
SERIES = (BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY, YELLOW, GREY)  # of things that have no colour of their own
_PATTERNS = ("", "/", "x", ".", "\\", "+", "-", "|")  # so that sets beyond the colours stay apart

# Where time goes: colour and pattern.
TIME = {
    "compute": (BLUE, ""),
    "recompute": (BLUE, "/"),
    "host": (GREY, "."),
    "tp": (VERMILLION, ""),
    "cp": (ORANGE, ""),
    "ep": (PURPLE, ""),
    "dp": (GREEN, ""),
    "pp": (YELLOW, ""),
    "offload": (PURPLE, "x"),
    "update": (SKY, ""),
    "idle": (PALE, ""),
}
MEMORY = {
    "weights": (BLUE, ""),
    "gradients": (VERMILLION, ""),
    "optimizer": (ORANGE, ""),
    "activations": (GREEN, ""),
    "buffers": (SKY, ""),
    "reserve": (PALE, ""),
    "runtime": (GREY, "."),
}
INDIGO = "#7a6bc8"  # beside Okabe and Ito's: weight gradients, which lie among all colours of communication
PASSES = {"forward": (SKY, ""), "backward": (BLUE, ""), "input gradient": (BLUE, ""), "weight gradient": (INDIGO, "")}


def filled(look: tuple[str, str]) -> dict[str, Any]:
    """The marker of a bar of this colour and pattern; lines of a pattern are white, so that its colour stays."""
    colour, pattern = look
    if not pattern:
        return {"color": colour}
    return {
        "color": colour,
        "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.8, "size": 7},
    }


def series(index: int) -> tuple[str, str]:
    """Colour and pattern of the thing with this number, of any number of things."""
    return SERIES[index % len(SERIES)], _PATTERNS[index // len(SERIES) % len(_PATTERNS)]
