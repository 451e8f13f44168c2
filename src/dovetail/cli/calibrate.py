"""`dovetail calibrate`: measurements in, a chip file out; of collectives or a user's runs, a cluster file."""

# Annotations are evaluated here: the options in them are the command's.
from typing import Annotated, Any

from dovetail.api.requests.option import COUNT, REPEATED, Option, argument
from dovetail.cli.options import AsJson, Force, Html, command
from dovetail.errors import InvalidInput


@command()
def calibrate(
    *,
    files: Annotated[
        tuple[str, ...], argument("CSV files and logs, as dovetail validate takes them.", "FILE", REPEATED)
    ] = (),
    chip: Annotated[
        str, Option("A chip: name, the beginning of one such as h200, or a file. Where the fit begins.", "NAME")
    ] = "",
    dtype: Annotated[str, Option("Of every row, whatever the table has.", "DTYPE")] = "",
    runs: Annotated[
        tuple[str, ...],
        Option(
            "A CSV file of your own runs on one cluster, or a training log, with each FILE as one more: fits that"
            " cluster.",
            "FILE",
            REPEATED,
        ),
    ] = (),
    cluster: Annotated[
        str,
        Option(
            "Of collectives and logs: the cluster that ran, a name or a file; where the fit begins. Otherwise as rows"
            " say.",
            "NAME",
        ),
    ] = "",
    spec: Annotated[
        str, Option("Of training logs: the spec file of their job, which goes before the logs.", "FILE")
    ] = "",
    model: Annotated[str, Option("Of training logs: their model, a name, file or config.json.", "NAME")] = "",
    plan: Annotated[str, Option("Of training logs: their plan, a name or file.", "NAME")] = "",
    global_batch: Annotated[int | None, Option("Of training logs: samples per step.", "N", COUNT)] = None,
    seq: Annotated[int | None, Option("Of training logs: sequence length of a sample.", "N", COUNT)] = None,
    platform: Annotated[str, Option("Of collectives: whose rows, in a table of several platforms.", "NAME")] = "",
    out: Annotated[str, Option("The file to write; NAME-calibrated.yaml if none.", "FILE")] = "",
    force: Force = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Fit a chip or a cluster to measurements, and write its file.

    The numbers of the chip's calibration that the rows tell anything of are fitted for the least mean error; the same
    error on rows left out in turn says what to expect of other rows. With --runs, one or two numbers of a cluster:
    of a table of runs, or of training logs, of which the median steady step counts.
    Of logs of nccl-tests, rccl-tests and OSU's micro-benchmarks, and of tables of collectives, the constants of a
    cluster's collective library; --html draws time and bus bandwidth over size, measured and predicted.
    """
    if runs:
        if chip or dtype or platform or html:
            rule = "a cluster is fitted to runs alone; leave out --chip, --dtype, --platform and --html"
            raise InvalidInput(rule, "--runs")
        job: dict[str, Any] = {"spec": spec, "model": model, "plan": plan, "cluster": cluster}
        job |= {"global_batch": global_batch or 0, "seq": seq or 0}
        _fit_cluster((*runs, *files), job, out, is_forced=force, as_json=as_json)
        return
    if spec or model or plan or global_batch or seq:
        raise InvalidInput("the job of training logs goes with --runs LOG; name one", "--runs")
    if not files:
        raise InvalidInput("name CSV files of measurements, or pass --runs FILE with your own runs on a cluster")
    from dovetail.api.calibrated import calibrated_chip, has_collectives

    if has_collectives(files):
        if chip or dtype:
            raise InvalidInput("collectives are fitted for a cluster; name it by --cluster", "--chip")
        _fit_library(files, cluster, platform, out, html, is_forced=force, as_json=as_json)
        return
    if cluster or platform or html:
        raise InvalidInput("it is for logs and tables of collectives; leave it out", "--cluster")
    from dovetail.cli.progress import telling
    from dovetail.cli.screen import show_json, show_tables
    from dovetail.files.text import one_line
    from dovetail.report.calibration import fit_record, fit_tables

    found = calibrated_chip(files, chip, dtype, out, is_forced=force, announce=telling)
    if as_json:
        show_json(fit_record(found.fit, found.skipped) | {"written": str(found.file)})
    else:
        show_tables(fit_tables(found.fit, one_line(str(found.file)), found.skipped))


def _fit_cluster(runs: tuple[str, ...], job: dict[str, Any], out: str, *, is_forced: bool, as_json: bool) -> None:
    """Fits the cluster of a table of runs or of training logs, and writes its file."""
    from dovetail.api.calibrated import calibrated_cluster
    from dovetail.api.jobs import JobRequest
    from dovetail.cli.progress import announced
    from dovetail.cli.screen import show_json, show_tables
    from dovetail.files.text import one_line
    from dovetail.report.cluster_calibration import cluster_fit_record, cluster_fit_tables

    found = calibrated_cluster(runs, out, is_forced=is_forced, announce=announced, job=JobRequest(**job))
    own, file = found.fit.own_runs(found.fitted_on), str(found.file)
    if as_json:
        show_json({"cluster": found.name} | cluster_fit_record(found.fit, own, found.skipped) | {"written": file})
    else:
        show_tables(cluster_fit_tables(found.fit, own, found.name, one_line(file), found.skipped))


def _fit_library(
    files: tuple[str, ...], cluster: str, platform: str, out: str, html: str, *, is_forced: bool, as_json: bool
) -> None:
    """Fits the collective library of a cluster to logs, and writes the cluster's file."""
    from dovetail.api.calibrated import calibrated_library
    from dovetail.cli.html import check_html, show_html
    from dovetail.cli.progress import announced
    from dovetail.cli.screen import show_json, show_tables
    from dovetail.report.library_calibration import library_fit_page, library_fit_record, library_fit_tables

    check_html(html)
    found = calibrated_library(files, cluster, platform, out, is_forced=is_forced, announce=announced)
    record = library_fit_record(found)
    show_json(record) if as_json else show_tables(library_fit_tables(found))
    if html:
        inputs = {"files": list(files), "cluster": cluster, "platform": platform}
        show_html(html, library_fit_page(found), inputs, record, is_announced=not as_json)
