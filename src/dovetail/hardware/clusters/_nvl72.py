"""NVL72 racks: 72 GPUs on one NVLink switch, four a compute tray, two beside each Grace."""

from __future__ import annotations

from dovetail.hardware.clusters._dgx import three_tier_ports

NUM_RACK, NUM_TRAY = 72, 4  # GPUs of a rack, and of a compute tray
NUM_MOST = three_tier_ports(64) // NUM_RACK * NUM_RACK


def rack_devices(num_devices: int) -> int:
    """GPUs of each rack that a job uses: whole trays, the same number in every rack, more than half of each.

    Jobs of powers of two take 64 of 72, as public runs do: 128 devices are two racks of 64.
    """
    if num_devices <= NUM_RACK:
        return NUM_RACK
    for num_rack in range(NUM_RACK, NUM_RACK // 2, -NUM_TRAY):
        if num_devices % num_rack == 0:
            return num_rack
    return NUM_RACK
