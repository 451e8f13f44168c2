"""Models: by catalogue name, from a Hugging Face configuration, or written out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, create_model

from dovetail.errors import InvalidInput
from dovetail.files.entry import Entry, followed, opened, placed, spoken
from dovetail.files.schema import MAX_LIST, Sentence, Shape, Text, Whole, built, checked, shape_of
from dovetail.files.text import one_line
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

HUGGING_FACE_KEYS = {"model_type", "architectures", "transformers_version"}
FORMAT_KEY = "format"  # of a model file that `dovetail capture` wrote
MOST_PARAMETERS = 1e15  # style: a bound
_BASE_HINT = "; give it, or name a base to take it from"


def load_model(reference: str) -> Model:
    """The model that `reference` names: a catalogue name, a Hugging Face config.json, or a file with a model in it."""
    return model_of(spoken(reference))


def model_of(entry: Entry, seq: int = 0) -> Model:
    """The model `entry` names or describes; `seq` is how long a sample is if the model does not say, 0 for unknown."""
    entry = followed(entry, "model", models)
    if isinstance(entry.value, str):
        with placed(entry):
            return models[entry.value]()
    if FORMAT_KEY in entry.value:
        return _captured(entry)
    if HUGGING_FACE_KEYS & entry.value.keys():
        return _buildable(_hugging_face(entry), entry)
    return _buildable(_written_out(entry, seq), entry)


def model_of_file(file: Path) -> Model:
    """The model of a file of the catalogue, whose graph the tests have built."""
    return _written_out(opened(file), 0)


def _captured(entry: Entry) -> Model:
    from dovetail.files.captured import captured_model, captured_of

    return captured_model(captured_of(entry))


def _hugging_face(entry: Entry) -> Model:
    from dovetail.workload.huggingface import model_from_config

    file = Path(entry.document.shown)
    # a model folder's config.json is known by the folder, where there is one
    name = file.resolve().parent.name if file.stem == "config" and not entry.document.is_closed else file.stem
    with placed(entry):
        return model_from_config(entry.node.plain(), one_line(name) or "model")


@cache
def _model_shape(*, has_base: bool) -> type[Shape]:
    more = {
        "base": (Text, ""),
        "seq": (Whole, 0),
        "batch": (Whole, 0),
        "source": (Sentence, ""),
        "family": (Text, ""),
        "sample": (Text, ""),
        "published_parameters": (Annotated[int | float, Field(ge=0, le=MOST_PARAMETERS)], 0.0),
        "is_exact": (bool, False),
        "notes": (Annotated[list[Sentence], Field(max_length=MAX_LIST)], []),
    }
    return create_model("ModelShape", __base__=shape_of(Transformer, is_partial=has_base), **more)  # type: ignore[call-overload,no-any-return]


def _written_out(entry: Entry, seq: int) -> Model:
    base = model_of(entry.child("base")) if entry.has("base") else None
    architecture = _transformer(base, entry)
    written: dict[str, Any] = entry.node.plain()
    if base is not None:
        written.setdefault("name", f"{base.name}-changed")
    shape = checked(entry, _model_shape(has_base=base is not None), written=written, hint=_BASE_HINT)
    seq = shape.seq or (base.seq if base else seq)
    if seq < 1:
        raise entry.child("seq").refused("seq is missing; set the sequence length here or in the workload")
    if shape.is_exact and not shape.published_parameters:
        raise entry.child("is_exact").refused("is_exact is of published_parameters; give them too, or leave it out")
    model = Model(
        architecture=built(Transformer, shape, entry, architecture),
        family=shape.family or (base.family if base else "transformer"),
        seq=seq,
        sample=shape.sample or (base.sample if base else "tokens"),
        published_parameters=shape.published_parameters,  # 0 where none was published
        is_exact=shape.is_exact,
        source=shape.source or entry.document.source,
        notes=tuple(shape.notes),
    )
    batch = shape.batch or (base.batch if base else 0)
    return replace(model, batch=batch) if batch else model


def _transformer(base: Model | None, entry: Entry) -> Transformer | None:
    if base is None:
        return None
    if isinstance(base.architecture, Transformer):
        return base.architecture
    raise entry.child("base").refused(
        f"only a transformer can be a base, and {base.name} is a {base.family} model;"
        " take it as it is, or a transformer as base"
    )


def _buildable(model: Model, entry: Entry) -> Model:
    """`model`, once its graph was built: what no operator stands for, or cannot be counted, is found here."""
    sample = Sample(batch=1, seq=model.seq, dtype="bf16")
    with placed(entry):
        try:
            model.forward(sample)
        except ArithmeticError:  # a size of 0 where something is divided by it, or a product beyond 64 bits
            raise InvalidInput("the sizes of this model cannot be built: one is 0 or too large; check them") from None
    return model
