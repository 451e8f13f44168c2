"""The errors on published runs that ship with the package."""

from __future__ import annotations

from functools import cache

from dovetail.accuracy.residuals import Residual, residuals_of
from dovetail.files.measurements import load_measurements, shipped_folder


@cache
def load_residuals() -> tuple[Residual, ...]:
    return residuals_of(load_measurements(shipped_folder("residuals.csv")))
