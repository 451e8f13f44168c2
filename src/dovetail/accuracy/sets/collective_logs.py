"""Logs of nccl-tests, rccl-tests and OSU's micro-benchmarks, as `files/collective_logs.py` reads them."""

from __future__ import annotations

from dataclasses import replace

from dovetail.accuracy.collective_rows import LOG, log_rows
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.collectives import prepared_collectives
from dovetail.comm.library.platforms import nearest_platform
from dovetail.errors import InvalidInput, NotModelled


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """The rows of a log, of one run or of several; by buffers, out-of-place and in-place."""
    rows = log_rows(measurements)
    if given.cluster is None:
        product = given.chip.name if given.chip is not None else rows.products[0]
        if not product:
            ask = "pass --chip or --cluster, or add a line such as '# platform: H100'"
            raise InvalidInput(f"the log does not state which GPUs ran; {ask}", measurements.shown)
        try:
            nearest_platform(product)
        except NotModelled as error:
            raise NotModelled(error.message, measurements.shown) from None
        rows = replace(rows, products=(product,) * len(rows))
    return prepared_collectives(measurements, given, rows, is_log=True)


sets.register("collective-logs")(
    Format(needed=LOG, summary="what nccl-tests, rccl-tests and OSU's micro-benchmarks print", prepare=prepare)
)
