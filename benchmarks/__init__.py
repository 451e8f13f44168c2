"""Measurements of Dovetail itself: the bars it must clear, its speed, and the quality of what it finds."""
