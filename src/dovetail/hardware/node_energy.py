"""Dynamic energy of logic by process node, the one table that energies, power and area models scale by."""

from __future__ import annotations

# Node in nm, energy against 7 nm. Stillmaker & Baas 2017 at 0.8 V: 0.0943 at 7 nm, 0.1178 at 10, 0.1735 at 16 and
# 0.2211 at 20 nm of the 45 nm energy, 12 nm between 16 and 10; below 7 nm an estimate of one full node of gain.
ENERGY_RATIO = {28: 2.9, 22: 2.4, 16: 1.84, 12: 1.5, 10: 1.25, 7: 1.0, 6: 0.95, 5: 0.8, 4: 0.8, 3: 0.65}
