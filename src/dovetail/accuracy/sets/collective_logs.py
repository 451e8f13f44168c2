"""Logs of nccl-tests, rccl-tests and OSU's micro-benchmarks, as `files/collective_logs.py` reads them."""

from __future__ import annotations

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.collectives import Collectives, checked_size_bytes, prepared_collectives
from dovetail.comm.library.platforms import platform_of
from dovetail.errors import InvalidInput, NotModelled
from dovetail.units import MICRO

NEEDED = ("log_collective", "log_ranks", "log_nodes", "log_nics", "buffers", "size_bytes", "time_us")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """The rows of a log, all of one collective; by buffers, out-of-place and in-place."""
    count = len(measurements)
    product = given.chip.name if given.chip is not None else measurements.words("log_platform")[0]
    if not product:
        ask = "say --chip, or add a line such as '# platform: H100'"
        raise InvalidInput(f"the log does not say which GPUs ran; {ask}", measurements.shown)
    try:
        platform = platform_of(product)
    except NotModelled as error:
        raise NotModelled(error.message, measurements.shown) from None
    rows = Collectives(
        platforms=[platform] * count,
        operations=measurements.words("log_collective"),
        num_ranks=measurements.counts("log_ranks"),
        num_nodes=measurements.counts("log_nodes"),
        nic_bytes_per_s=measurements.numbers("log_nics"),
        size_bytes=checked_size_bytes(measurements),
        measured_s=measurements.positive("time_us") * MICRO,
        kinds=tuple(measurements.words("buffers")),
    )
    return prepared_collectives(measurements, given, rows, is_log=True)


sets.register("collective-logs")(
    Format(needed=NEEDED, summary="what nccl-tests, rccl-tests and OSU's micro-benchmarks print", prepare=prepare)
)
