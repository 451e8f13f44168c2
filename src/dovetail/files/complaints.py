"""What pydantic says of a shape, in our words: the rule, the value, and the place in the file."""

from __future__ import annotations

import typing
from collections.abc import Mapping

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.entry import Entry, described
from dovetail.files.text import quoted

_RULES = {
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "too_short": "must have {min_length} values",  # three sizes of a tile; where one will do, see below
    "too_long": "must have at most {max_length} values",
    "greater_than_equal": "must not be negative",  # the only lower bound is 0; values say where 1 is theirs
    "less_than_equal": "must be at most {le:,}",
    "rule": "{rule}",
}


def complaint(
    entry: Entry, shape: type[BaseModel], detail: ErrorDetails, keys: Mapping[str, str], hint: str
) -> tuple[bool, int, InvalidInput]:
    """One complaint of pydantic's in our words, after its rank: a misspelt key comes before the one it leaves out."""
    loc = [keys.get(key, key) if isinstance(key, str) else key for key in detail["loc"] if key != "[key]"]
    place, holder = entry, entry
    for key in loc:
        place, holder = place.child(key), place
    kind, key, context = detail["type"], place.key, detail.get("ctx", {})
    if kind == "missing":
        return True, place.line, place.refused(f"{key} is missing{hint}")
    if kind == "extra_forbidden":
        known = _known_keys(shape, loc[:-1])
        section = holder.key if holder.path else "this file"
        name = str(loc[-1])
        return (
            False,
            place.line,
            place.refused(f"no key of {section} is named {quoted(name)}{did_you_mean(name[:100], known)}"),
        )
    if kind == "message":
        return False, place.line, place.refused(context["message"])
    rule = _RULES.get(kind, "cannot be read").format(**context)
    if context.get("min_length") == 1:
        rule = "must not be empty"
    return False, place.line, place.refused(f"{key} {rule}; got {described(detail['input'])}")


def _known_keys(shape: type[BaseModel], loc: list[int | str]) -> list[str]:
    """The keys of the mapping that `loc` leads to; items of a list share one shape."""
    current = shape
    for key in (key for key in loc if isinstance(key, str)):
        [annotation] = [f.annotation for name, f in current.model_fields.items() if (f.alias or name) == key]
        options = (annotation, *typing.get_args(annotation))
        current = next(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))
    return [field.alias or name for name, field in current.model_fields.items()]
