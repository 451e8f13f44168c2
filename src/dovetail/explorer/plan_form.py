"""The form of the first page: model, cluster and sizes, from the catalogues or uploaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dovetail.errors import InvalidInput
from dovetail.explorer.catalogue import UPLOADED, cluster_groups, model_groups
from dovetail.explorer.elements import box, choice_field, file_field, options_html, text_field, words
from dovetail.explorer.packed import unpacked
from dovetail.explorer.state import State, Upload, whole
from dovetail.files.job import OpenJob
from dovetail.files.uploaded import LIMIT_BYTES, upload_name
from dovetail.hardware.mixed import chips_of


class Asker(Protocol):
    """Who is asked by the form."""

    state: State

    async def ask(self, wanted: Callable[[], State]) -> None: ...


class PlanForm:
    """Controls that show a state and ask for another."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        words("What to train, on what", "h2")
        state = asker.state
        self._model = choice_field("model", "Model", model_groups(state.model_file), state.model, self._choose_model)
        file_field("model-file", "or a config.json or model file", "model", LIMIT_BYTES, self._take_model)
        self._cluster = choice_field("cluster", "Cluster", cluster_groups(), state.cluster, self._choose_cluster)
        file_field("cluster-file", "or a cluster file", "cluster", LIMIT_BYTES, self._take_cluster)
        with box("pair"):
            self._fields = {
                name: text_field(name, label, "", self._count(name), inputmode="numeric")
                for name, label in (("devices", "Devices"), ("batch", "Samples a step"), ("seq", "Positions a sample"))
            }
            self._compute = choice_field("compute", "Compute in", {}, "", self._choose_compute)

    def show(self, state: State, job: OpenJob) -> None:
        """The state as it was understood: sizes that were left open are filled in."""
        model = UPLOADED if state.model_file else state.model
        cluster = UPLOADED if state.cluster_file or state.design else state.cluster
        self._model.content = options_html(model_groups(state.model_file), model)
        self._cluster.content = options_html(cluster_groups(state.cluster_file, state.design), cluster)
        values = {"devices": job.cluster.num_devices, "batch": job.workload.global_batch, "seq": job.workload.seq}
        for name, value in values.items():
            self._fields[name].props["value"] = str(value)
            self._fields[name].update()
        dtypes = sorted(
            set.intersection(*({dtype for dtype, _ in chip.tensor.rates} for chip in chips_of(job.cluster)))
        )
        groups = {"": [(dtype, dtype) for dtype in dtypes]}
        self._compute.content = options_html(groups, job.workload.precision.compute)

    async def _choose_model(self, name: str) -> None:
        if name != UPLOADED:
            await self._asker.ask(lambda: self._asker.state.asking(model=name, model_file=None, batch=0, seq=0))

    async def _choose_cluster(self, name: str) -> None:
        if name != UPLOADED:
            changes: dict[str, Any] = {"cluster": name, "cluster_file": None, "design": "", "devices": 0, "compute": ""}
            await self._asker.ask(lambda: self._asker.state.asking(**changes))

    async def _choose_compute(self, name: str) -> None:
        await self._asker.ask(lambda: self._asker.state.asking(compute=name))

    def _count(self, name: str) -> Any:
        async def change(text: str) -> None:
            await self._asker.ask(lambda: self._asker.state.asking(**{name: whole(name, text)}))

        return change

    async def _take_model(self, sent: Any) -> None:
        await self._asker.ask(lambda: self._asker.state.asking(model_file=_sent(sent), batch=0, seq=0))

    async def _take_cluster(self, sent: Any) -> None:
        changes: dict[str, Any] = {"design": "", "devices": 0, "compute": ""}
        await self._asker.ask(lambda: self._asker.state.asking(cluster_file=_sent(sent), **changes))


def _sent(sent: Any) -> Upload:
    """What the server said of a file, come back by way of the page; raises what was wrong with it."""
    if not isinstance(sent, Mapping):
        raise InvalidInput("the file could not be sent; try again")
    if sent.get("error"):
        raise InvalidInput(str(sent["error"])[:2000])
    return Upload(name=upload_name(str(sent.get("name", ""))), text=unpacked(str(sent.get("text", ""))))
