"""One parameter of a typed Python call is one option everywhere: command line, explorer, address and reference page.

A call of the API is written once, as a function whose parameters are `Annotated["type", Option(help, ...)]`. This
module reads its signature: `Request` is the frozen value of everything that was asked, parsed and checked, and
`parameters_of` is what the command line (`dovetail.cli.options`) and the explorer's forms are built from.

Everything here is on the path of `dovetail --help`, so NumPy, pydantic and YAML are imported where a value is read.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, fields
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ForwardRef, ParamSpec, TypeVar

from dovetail.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
EMPTY = inspect.Parameter.empty  # the default of a parameter that must be given


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How an option's value is read: `parse` from text that a person typed, `check` from a value of a program.

    Both are given the option's flag for their errors, and both return what the request holds. `unset` is what it
    holds where nothing was given, and `example` what a person might type.
    """

    parse: Callable[[str, Any], Any]
    check: Callable[[str, Any], Any]
    unset: Any = ""
    text: Callable[[Any], str] = str  # a value as it is typed
    example: str = "name"
    is_repeated: bool = False  # may be given again on the command line
    is_flag: bool = False  # stands alone, without a value
    has_negative: bool = False  # also as --no-...: left out is neither


def _as_given(_: str, value: Any) -> Any:
    return "" if value is None else value


def _text(_: str, value: Any) -> Any:
    if value is None:
        return ""
    return os.fspath(value) if isinstance(value, PathLike) else value


def _parsed_tuple(_: str, words: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(words or ())


def _texts(_: str, words: str | PathLike[str] | Iterable[str | PathLike[str]]) -> tuple[Any, ...]:
    listed = [words] if isinstance(words, str | PathLike) else words
    return tuple(os.fspath(word) if isinstance(word, PathLike) else word for word in listed)


def _names(_: str, words: str | Iterable[str]) -> tuple[str, ...]:
    names = words.split(",") if isinstance(words, str) else words
    return tuple(name.strip() for name in names if name.strip())


def _values(_: str, value: Any) -> tuple[Any, ...]:
    """Several of what a program may give one of: a list or a tuple has them, anything else is one."""
    if value is None or (isinstance(value, str) and not value):
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _axes(_: str, value: Any) -> Any:
    """Axes of a sweep: a mapping as a program has it, or texts as they are typed."""
    return dict(value) if isinstance(value, Mapping) else _values(_, value)


def _num_tokens(flag: str, given: str | float) -> float:
    from dovetail.api.arguments import num_tokens

    return num_tokens(flag, given)


def _count_text(value: float) -> str:
    """A large count as it is typed: 15T, or all its digits where that would lose some."""
    from dovetail.units import GIGA, MEGA, TERA

    for scale, symbol in ((TERA, "T"), (GIGA, "B"), (MEGA, "M")):
        if value >= scale and float(f"{value / scale:.6g}") * scale == value:
            return f"{value / scale:.6g}{symbol}"
    return f"{value:.17g}"


def _slowdown(flag: str, given: str | float | None) -> float:
    """How many times as long something takes: above 0; 1 where nothing is said."""
    try:
        found = 1.0 if given is None else float(given)
    except (TypeError, ValueError):
        found = 0.0
    if not 0 < found < 1e6:  # style: a bound, far beyond every host
        raise InvalidInput(f"a slowdown is a number above 0, and 1 is as measured; got {given!r:.40}", flag)
    return found


def _parsed_fraction(flag: str, text: str | None) -> float | None:
    from dovetail.units import share_frac

    try:
        return None if text is None else share_frac(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, flag) from None


def _fraction(flag: str, value: Any) -> float | None:
    if value is None or isinstance(value, str):
        return _parsed_fraction(flag, value)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{flag} is a share from 0 to 1, or a text such as 5 %; got {value!r}")
    return float(value)


def _parsed_time_s(flag: str, text: str | None) -> float | None:
    from dovetail.units import quantity

    try:
        value = None if text is None else quantity(text, "s")
    except InvalidInput as error:
        raise InvalidInput(error.message, flag) from None
    return _time_s(flag, value)


def _time_s(flag: str, value: Any) -> float | None:
    if isinstance(value, str):
        return _parsed_time_s(flag, value)
    if value is not None and (not isinstance(value, int | float) or not 0 <= value < float("inf")):
        raise InvalidInput(f"{flag} is a time from 0 on in seconds, or a text such as 5 us; got {value!r}")
    return None if value is None else float(value)


def _device_usd_per_s(flag: str, given: Any) -> float:
    """What a device costs: text such as '2.5 $/h', or from Python dollars an hour; 0 where nothing is said."""
    from dovetail.units import SECONDS_PER_HOUR, price_usd_per_s

    if given is None or given == "":
        return 0.0
    if isinstance(given, str):
        try:
            return price_usd_per_s(given)
        except InvalidInput as error:
            raise InvalidInput(error.message, flag) from None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < float("inf"):
        raise InvalidInput(f"{flag} is dollars for an hour of a device, or a text such as '2.5 $/h'; got {given!r}")
    return given / SECONDS_PER_HOUR


def _decision(flag: str, value: Any) -> str:
    """A decision of a plan as it is typed: a number, a word, or several with commas between."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ",".join(_decision(flag, each) for each in value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(f"{flag} is a number or a word; got {type(value).__name__}")
    return str(value)


def counts(*, least: int = 1) -> Kind:
    """A whole number of at least `least`; 0 where it was left out."""

    def parse(flag: str, text: str | None) -> int:
        from dovetail.api.arguments import count

        return count(flag, text, least=least)

    def check(flag: str, value: Any) -> int:
        from dovetail.api.arguments import counted

        return counted(flag, value, least=least)

    return Kind(parse=parse, check=check, unset=0, example="8")


VALUE = Kind(parse=_as_given, check=_as_given)  # a name or a file, or from Python a value of its own
TEXT = Kind(parse=_text, check=_text)
COUNT = counts()
FLAG = Kind(parse=_as_given, check=_as_given, unset=False, is_flag=True)
SWITCH = Kind(parse=lambda _, value: value, check=lambda _, value: value, unset=None, is_flag=True, has_negative=True)
REPEATED = Kind(parse=_parsed_tuple, check=_texts, unset=(), is_repeated=True)
VALUES = Kind(parse=_parsed_tuple, check=_values, unset=(), is_repeated=True)  # names, files or values of programs
AXES = Kind(parse=_parsed_tuple, check=_axes, unset=(), is_repeated=True)
NAMES = Kind(parse=_names, check=_names, unset=())  # with commas between, or a list
FRACTION = Kind(  # a share of a whole: 5% or 0.05, and None where nothing is said, as 0 says something
    parse=_parsed_fraction, check=_fraction, unset=None, text=lambda value: f"{100 * value:g}%", example="5%"
)
DECISION = Kind(parse=_decision, check=_decision, example="2")
SLOWDOWN = Kind(parse=_slowdown, check=_slowdown, unset=1.0, text=lambda value: f"{value:g}", example="1.5")
SECONDS = Kind(  # a time: 5us, or from Python in seconds too; None where nothing is said
    parse=_parsed_time_s, check=_time_s, unset=None, text=lambda value: f"{value:g} s", example="5us"
)
PRICE = Kind(  # of a device: '2.5 $/h', or from Python dollars an hour
    parse=_device_usd_per_s,
    check=_device_usd_per_s,
    unset=0.0,
    text=lambda value: f"{value * 3600:.6g} $/h",  # style: an hour, as people pay by it
    example="2.5 $/h",
)
TOKENS = Kind(parse=_num_tokens, check=_num_tokens, unset=0.0, text=_count_text, example="15T")


@dataclass(frozen=True, slots=True)
class Option:
    """What is said of one parameter beside its type and default.

    `form` is its label in the explorer's form; a call that the explorer has a page for says of every other parameter
    in `no_form` why that page does not offer it. `address` is its word in the explorer's addresses where that is not
    the parameter's name; `flag` is its name on the command line, likewise, and `old_flag` one that it had before, which
    is still read and told of nowhere.
    """

    help: str
    metavar: str = ""
    kind: Kind = TEXT
    flag: str = ""
    old_flag: str = ""
    is_argument: bool = False  # given by place
    form: str = ""
    placeholder: str = ""  # an example, in the empty field of a form
    address: str = ""
    no_form: str = ""


def argument(help: str, metavar: str, kind: Kind = VALUE) -> Option:
    """A parameter that the command line takes by place; the explorer opens no spec files of its machine."""
    return Option(help, metavar, kind, is_argument=True, no_form="a page has its own words for a model and a cluster")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a call, with its default as Python has it and what its `Option` says."""

    name: str
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """As the command line has it; of what is given by place, what stands for it there."""
        if self.option.is_argument:
            return self.option.metavar
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def address(self) -> str:
        return self.option.address or self.name

    @property
    def unset(self) -> Any:
        """What a request holds where this was left out."""
        return self.option.kind.unset if self.default is EMPTY else self.check(self.default)

    @property
    def example(self) -> str:
        """What a person might type: its own example, or else one of its kind."""
        return self.option.placeholder or self.option.kind.example

    def parse(self, text: Any) -> Any:
        return self.option.kind.parse(self.flag, text)

    def check(self, value: Any) -> Any:
        return self.option.kind.check(self.flag, value)


def form_options(*requests: type[Request], but: Iterable[str] = ()) -> dict[str, Parameter]:
    """What a form offers of calls, `but` some, by the words of its address."""
    offered = (each for request in requests for each in request.parameters if each.option.form)
    return {each.address: each for each in offered if each.address not in but}


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The options of a typed function; parameters without an `Option` are the caller's own business."""
    found = []
    for each in inspect.signature(inspect.unwrap(function), follow_wrapped=False).parameters.values():
        if isinstance(each.annotation, str) and "Annotated[" in each.annotation:
            message = f"the annotation of {each.name} of {function.__name__} is text, so its option would be lost"
            raise TypeError(f"{message}; leave `from __future__ import annotations` out of its module")
        options = [one for one in getattr(each.annotation, "__metadata__", ()) if isinstance(one, Option)]
        default = () if each.kind is inspect.Parameter.VAR_POSITIONAL else each.default
        found += [Parameter(each.name, default, option) for option in options]
    return tuple(found)


class Request:
    """Everything that one call or command asks, parsed and checked: one attribute for each parameter of its function.

    `class PlanRequest(Request, of=plan)` has the parameters of `plan`. Built from the values of a program as
    `PlanRequest(model="llama3-8b", devices=64)`, and from words that were typed by `parsed`. Frozen; two that ask the
    same are equal. Attributes are not known to type checkers: tests/conformance/test_requests.py sees that every one
    is read, and that nothing else is.
    """

    function: ClassVar[Callable[..., Any]]
    parameters: ClassVar[tuple[Parameter, ...]]
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, *, of: Callable[..., Any]) -> None:
        cls.function, cls.parameters = staticmethod(of), parameters_of(of)

    def __init__(self, **given: Any) -> None:
        for parameter in self.parameters:
            value = given.pop(parameter.name, parameter.default)
            if value is EMPTY:
                raise InvalidInput(f"{parameter.flag} is missing")
            vars(self)[parameter.name] = parameter.check(value)
        if given:
            raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")

    @classmethod
    def of_arguments(cls: type[Q], arguments: Mapping[str, Any]) -> Q:
        """The request of a call's `locals()`; what is no option of it, such as who is told of progress, is left out."""
        names = [parameter.name for parameter in cls.parameters]
        return cls(**{name: arguments[name] for name in names})

    @classmethod
    def parsed(cls: type[Q], typed: Mapping[str, Any]) -> Q:
        """The request of words that were typed, by parameter; what is left out has its default."""
        found = cls.__new__(cls)
        for parameter in cls.parameters:
            is_typed = parameter.name in typed
            vars(found)[parameter.name] = parameter.parse(typed[parameter.name]) if is_typed else parameter.unset
        return found

    def changed(self: Q, **values: Any) -> Q:
        """The same with other values, as a request holds them."""
        found = type(self).__new__(type(self))
        vars(found).update({**vars(self), **values})
        assert vars(found).keys() == vars(self).keys(), f"{type(self).__name__} has no such fields: {sorted(values)}"
        return found

    def part(self, kind: type[T], **others: Any) -> T:
        """The dataclass `kind` with those of its fields that this request has too, and `others`."""
        shared = {one.name: vars(self)[one.name] for one in fields(kind) if one.name in vars(self)}  # type: ignore[arg-type]
        return kind(**{**shared, **others})

    @property
    def values(self) -> dict[str, Any]:
        """Every parameter with its value."""
        return dict(vars(self))

    @property
    def given(self) -> dict[str, Any]:
        """What was said, by parameter: all that differs from its default."""
        return {each.name: self._value(each) for each in self.parameters if self._is_given(each)}

    def _value(self, parameter: Parameter) -> Any:
        return vars(self)[parameter.name]

    def _is_given(self, parameter: Parameter) -> bool:
        """Whether it differs from the default; values of programs, which may compare as arrays do, always do."""
        value = self._value(parameter)
        return not isinstance(value, str | int | float | tuple | None) or value != parameter.unset

    @property
    def call(self) -> str:
        """The call that asks the same, as Python has it; values that are no words or numbers are there by name."""
        inside = ", ".join(f"{name}={_literal(value)}" for name, value in self.given.items())
        return f"dovetail.{self.function.__name__}({inside})"

    def is_expressible(self) -> bool:
        """Whether a command could ask the same: names, files and numbers alone."""
        return all(isinstance(value, str | Path | int | float | tuple | None) for value in vars(self).values())

    def words(self, command: type[Request], *, but: tuple[str, ...] = ()) -> str:
        """The words after `command`'s name that ask for the same, `but` some, as far as it takes them.

        Options that have their defaults are left out.
        """
        known = {parameter.name for parameter in command.parameters} - set(but)
        said: list[str] = []
        for parameter in self.parameters:
            if parameter.name in known and self._is_given(parameter):
                said += _words(parameter, self._value(parameter))
        return shlex.join(said)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(vars(self).values())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")


Q = TypeVar("Q", bound=Request)


def _words(parameter: Parameter, value: Any) -> list[str]:
    """One option as the command line takes it."""
    if parameter.option.is_argument:
        return [str(one) for one in value] if isinstance(value, tuple) else [str(value)]
    if parameter.option.kind.is_flag:
        return [parameter.flag if value else parameter.flag.replace("--", "--no-", 1)]
    if parameter.option.kind.is_repeated:
        return [word for one in value for word in (parameter.flag, str(one))]
    return [parameter.flag, ",".join(value) if isinstance(value, tuple) else parameter.option.kind.text(value)]


def _literal(value: Any) -> str:
    if isinstance(value, PathLike):
        return repr(str(Path(value)))
    if isinstance(value, str | int | float | list | tuple | Mapping):
        return repr(value)
    return f"<{type(value).__name__} {getattr(value, 'name', '')}".rstrip() + ">"


def python_call(function: Callable[P, R]) -> Callable[P, R]:
    """`function` as programs call it: its signature without our options, and errors that name arguments as Python does.

    An error of the layers below calls an option by its flag, --global-batch; a program reads global_batch.
    """

    @wraps(function)
    def call(*positional: P.args, **named: P.kwargs) -> R:
        from dovetail.api.arguments import in_python

        return in_python(function)(*positional, **named)

    signature = inspect.signature(function)
    plain = [each.replace(annotation=_type_text(each.annotation)) for each in signature.parameters.values()]
    call.__signature__ = signature.replace(parameters=plain)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in plain} | {"return": signature.return_annotation}
    return call


def _type_text(annotation: Any) -> str:
    """The type as it is written in the source: annotations of calls are text, as their types are heavy to import."""
    origin = getattr(annotation, "__origin__", annotation)
    if isinstance(origin, ForwardRef):
        return origin.__forward_arg__
    assert isinstance(origin, str), f"the type of a parameter of a call is written as text; got {origin!r}"
    return origin
