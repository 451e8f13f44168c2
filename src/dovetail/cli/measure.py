"""`dovetail measure`: the GPU of this machine as tables, or one training step beside its prediction."""

import io
from contextlib import redirect_stdout

from dovetail.api.requests.measurements import MeasureRequest
from dovetail.cli.options import AsJson, Html, command


@command(MeasureRequest)
def measure(request: MeasureRequest, *, html: Html = "", as_json: AsJson = False) -> bool:
    """Measure this machine's GPU, for validate and calibrate.

    Operators, power, small steps and, over several GPUs, collectives, in under six minutes on an H200. Rows are written
    as they are measured: stopped in any way, the same command goes on. `measure step MODEL` puts the training step of
    a model beside the prediction.
    """
    from dovetail.api.gpu_measured import measured_answer
    from dovetail.cli.answers import show_answer
    from dovetail.cli.html import check_html
    from dovetail.cli.process import stream
    from dovetail.cli.progress import measuring_progress

    check_html(html)
    aside = stream("stderr") or io.StringIO()  # what the user's code prints is no part of the answer
    with measuring_progress() as tell, redirect_stdout(aside):
        found = measured_answer(request, tell)
    return show_answer(found, as_json=as_json, html=html)
