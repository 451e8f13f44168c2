"""The form of the first page: model, cluster and sizes, from the catalogues or uploaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from dovetail.errors import InvalidInput
from dovetail.explorer.catalogue import UPLOADED, cluster_groups, model_groups
from dovetail.explorer.elements import box, choice_field, file_field, options_html, put_text, text_field, words
from dovetail.explorer.packed import unpacked
from dovetail.explorer.state import DEVICES, LABELS, OPTIONS, State, Upload, whole
from dovetail.explorer.turns import can_have
from dovetail.files.job import OpenJob
from dovetail.files.uploaded import LIMIT_BYTES, upload_name
from dovetail.hardware.heterogeneous import chips_of


class Asker(Protocol):
    """Who is asked by the form."""

    job: OpenJob | None

    @property
    def state(self) -> State: ...

    async def ask(self, wanted: Callable[[], State]) -> None: ...


class PlanForm:
    """Controls that show a state and ask for another."""

    def __init__(self, asker: Asker, *, can_upload: bool) -> None:
        self._asker = asker
        words("Model and cluster", "h2")
        state = asker.state
        self._model = choice_field("model", "Model", model_groups(state.model_file), state.model, self._choose_model)
        self._cluster = choice_field("cluster", "Cluster", cluster_groups(), state.cluster, self._choose_cluster)
        self._sized = words("", "p", "note", role="status", id="sized")
        with box("pair"):
            self._fields = {
                name: text_field(name, LABELS[name], "", self._count(name), inputmode="numeric")
                for name in ("devices", "batch", "seq")
            }
            self._compute = choice_field("compute", LABELS["compute"], {}, "", self._choose_compute)
            self._fields |= {
                name: text_field(
                    name, LABELS[name], "", self._option(name), placeholder=OPTIONS[name].option.placeholder
                )
                for name in OPTIONS
            }
            self._typed = dict.fromkeys(self._fields, "")  # what stands in each, as far as the server was told
        if can_upload:
            with box("uploads", "details"):
                words("Upload a model or a cluster", "summary")
                file_field("model-file", "config.json or model file", "model", LIMIT_BYTES, self._take_model)
                file_field("cluster-file", "Cluster file", "cluster", LIMIT_BYTES, self._take_cluster)

    def show(self, state: State, job: OpenJob) -> None:
        """The state as it was understood: sizes that were left open are filled in."""
        model = UPLOADED if state.model_file else state.model
        cluster = UPLOADED if state.cluster_file or state.design else state.cluster
        self._model.content = options_html(model_groups(state.model_file), model)
        self._cluster.content = options_html(cluster_groups(state.cluster_file, state.design), cluster)
        self.show_devices(round(job.cluster.num_devices * state.factors.get(DEVICES, 1.0)))
        self._put("batch", str(job.workload.global_batch))
        self._put("seq", str(job.workload.seq))
        for name in OPTIONS:
            self._put(name, state.options.get(name, ""))
        self._field_box("seq").set_visibility(job.workload.model.sample == "tokens")
        dtypes = sorted(
            set.intersection(*({dtype for dtype, _ in chip.tensor.rates} for chip in chips_of(job.cluster)))
        )
        groups = {"": [(dtype, dtype) for dtype in dtypes]}
        self._compute.content = options_html(groups, job.workload.precision.compute)

    def show_devices(self, num_devices: int) -> None:
        self._put("devices", str(num_devices))

    def _put(self, name: str, text: str) -> None:
        """What a field is to hold; one that holds it already is left to whoever types there."""
        if self._typed[name] != text:
            self._typed[name] = text
            put_text(self._fields[name], text)

    def _field_box(self, name: str) -> Any:
        slot = self._fields[name].parent_slot
        assert slot is not None, f"{name} has no field here"
        return slot.parent

    async def _choose_model(self, name: str) -> None:
        if name != UPLOADED:
            await self._asker.ask(lambda: self._asker.state.asking(model=name, model_file=None, batch=0, seq=0))

    async def _choose_cluster(self, name: str) -> None:
        if name != UPLOADED:
            changes: dict[str, Any] = {"cluster": name, "cluster_file": None, "design": "", "compute": ""}
            own = self._asker.job.cluster.num_devices if self._asker.job is not None else 0
            wanted = self._asker.state.asking(**changes, devices=0)
            is_kept = bool(own) and can_have(wanted, own)
            told = f"It cannot have {own:,} devices; this is its own size."
            self._sized.content = "" if is_kept or not own else told
            await self._asker.ask(lambda: replace(wanted, devices=own if is_kept else 0))

    async def _choose_compute(self, name: str) -> None:
        await self._asker.ask(lambda: self._asker.state.asking(compute=name))

    def _count(self, name: str) -> Any:
        async def change(text: str) -> None:
            self._typed[name] = text
            self._sized.content = ""
            await self._asker.ask(lambda: self._asker.state.asking(**{name: whole(name, text)}))

        return change

    def _option(self, name: str) -> Any:
        async def change(text: str) -> None:
            self._typed[name] = text
            await self._asker.ask(lambda: self._asker.state.with_option(name, text))

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
