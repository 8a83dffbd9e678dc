"""Strict settings: nested dicts and dotted overrides in, frozen dataclasses out.

A component's settings are a frozen, keyword-only dataclass. `build` refuses an unknown key, a wrong type (also "8"
for 8 and True for 1) and PyYAML's number traps, each with the dotted path. `doc` reads the one-line help stored with
each field as `field(metadata={"doc": ...})`, made by `setting`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from treetop.core import registry, renamed
from treetop.core.errors import ConfigError, did_you_mean, shown

T = TypeVar("T")

LARGEST = 2**62  # of whole numbers; arrays hold no larger ones


@dataclasses.dataclass(frozen=True)
class Registered:
    """In `Annotated[str, Registered("loss")]`: the setting is a name of the registry, built in or of a plug-in."""

    question: str

    @property
    def choices(self) -> Any:
        """The names as a type of choices."""
        return typing.Literal[tuple(registry.names(self.question))]


def setting(default: Any, doc: str, *, low: float | None = None, high: float | None = None) -> Any:
    """A field with a default, one line of help and an allowed range; a frozen dataclass as default nests."""
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


def build(kind: type[T], values: Mapping[str, Any], *, path: str = "") -> T:
    """An instance of the frozen dataclass `kind` from plain values, every key and type checked."""
    fields = _fields(typing.cast(typing.Hashable, kind))
    converted: dict[str, Any] = {}
    for key, value in values.items():
        name = key if isinstance(key, str) else shown(key)
        where = f"{path}.{name}" if path else name
        if not isinstance(key, str) or key not in fields:
            if isinstance(key, str) and (new := renamed.new_name(key, fields)):
                raise ConfigError(renamed.notice(key, new, where, value))
            hint = _deeper(kind, name, path) or did_you_mean(name, fields)
            raise ConfigError(f"{where}: unknown setting. Known here: {', '.join(fields) or 'none'}.{hint}")
        field, allowed = fields[key]
        base = field.default
        if dataclasses.is_dataclass(base) and isinstance(value, Mapping):
            value = merged(to_dict(base), value)
        converted[key] = _convert(allowed, value, where)
        _check_range(field, converted[key], where)
    try:
        return kind(**converted)
    except ConfigError as error:
        raise ConfigError(f"{path}.{error}" if path else str(error)) from None


def _deeper(kind: type, key: str, path: str) -> str:
    """A hint at settings of this name that lie in a group further down, or nothing."""
    matching = [name for name, *_ in describe(kind, path=path) if name.endswith(f".{key}")]
    return f" Did you mean {' or '.join(map(repr, matching[:3]))}?" if matching else ""


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes`, nested settings merged too."""
    result = {**base, **changes}
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            result[key] = merged(base[key], value)
    return result


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: (field, hints[field.name]) for field in dataclasses.fields(kind)}


def _choices(hint: Any) -> Any:
    """A registered name as a choice type; other types unchanged."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint
    plain, *more = typing.get_args(hint)
    return next((item.choices for item in more if isinstance(item, Registered)), plain)


def _check_range(field: dataclasses.Field[Any], value: Any, where: str) -> None:
    low, high = field.metadata.get("low"), field.metadata.get("high")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    if isinstance(value, int) and abs(value) > LARGEST:
        digits = int(math.log10(abs(value))) + 1
        raise ConfigError(f"{where}: a number of {digits} digits is out of range. Give a smaller one.")
    if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
        above, below = f"{low} or more" if low is not None else "", f"{high} or less" if high is not None else ""
        allowed = f"{low} to {high}" if above and below else above or below or "any finite number"
        raise ConfigError(f"{where}: {shown(value)} is out of range. Allowed: {allowed}.")


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint)) if not typing.get_args(hint) else str(hint).replace("typing.", "")


def _convert(hint: Any, value: Any, where: str) -> Any:
    hint = _choices(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(arguments, value, where)
    if origin is typing.Literal:
        if type(value) in {type(argument) for argument in arguments} and value in arguments:
            return value
        listed = ", ".join(repr(argument) for argument in arguments)
        hint_text = did_you_mean(value, [str(a) for a in arguments]) if isinstance(value, str) else ""
        raise ConfigError(f"{where}: unknown value {shown(value)}. Choose one of {listed}.{hint_text}")
    if origin is tuple:
        return _convert_tuple(arguments, value, where)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return build(typing.cast(type, hint), value, path=where)
        if isinstance(value, typing.cast(type, hint)):
            return build(typing.cast(type, hint), to_dict(value), path=where)
        known = [f"{where}.{name}" for name in _fields(typing.cast(type, hint))]
        raise ConfigError(
            f"{where}: expected a group of settings, got {type(value).__name__} {shown(value)}. Set one of "
            f"{', '.join(known)}."
        )
    elif origin is dict or hint is dict:
        if isinstance(value, Mapping):
            return dict(value)
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if isinstance(value, float) or abs(value) <= LARGEST else value
    elif isinstance(hint, type) and type(value) is hint:
        return value
    remedy = " Write true or false." if hint is bool else _number_trap(value)
    raise ConfigError(f"{where}: expected {_name(hint)}, got {type(value).__name__} {shown(value)}.{remedy}")


def _convert_union(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    for argument in arguments:
        if argument is type(None):
            if value is None:
                return None
            continue
        try:
            return _convert(argument, value, where)
        except ConfigError:
            continue
    allowed = " or ".join("null" if argument is type(None) else _name(argument) for argument in arguments)
    lists = any(typing.get_origin(argument) is tuple for argument in arguments)
    remedy = " Write [a, b]." if lists else _number_trap(value)
    raise ConfigError(f"{where}: expected {allowed}, got {type(value).__name__} {shown(value)}.{remedy}")


def _convert_tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if isinstance(value, str) and arguments == (str, Ellipsis):  # names as a command line has them: a,b
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: expected a list, got {type(value).__name__} {shown(value)}. Write [a, b].")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if len(value) != len(arguments):
        raise ConfigError(f"{where}: expected a list of {len(arguments)} values, got {len(value)}.")
    return tuple(_convert(a, item, f"{where}[{i}]") for i, (a, item) in enumerate(zip(arguments, value, strict=True)))


def _number_trap(value: Any) -> str:
    """YAML reads 5e-5 and 1e5 as text; say how to write them, and that one --set takes one setting."""
    if not isinstance(value, str):
        return ""
    if "," in value and "=" in value:
        return " Give each setting its own --set."
    try:
        number = float(value)
    except ValueError:
        return ""
    if not math.isfinite(number):
        return " Write a finite number."
    mantissa, e, exponent = value.lower().partition("e")
    better = f"{mantissa}.0e{exponent}" if e and "." not in mantissa else repr(number)
    if e and exponent[:1] not in "+-":
        better = f"{better.partition('e')[0]}e+{exponent}"
    return f" YAML read it as text: write {better if e else value} without quotes."


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values of a settings object, ready for JSON, YAML and `build`."""
    plain: dict[str, Any] = dataclasses.asdict(config)
    return typing.cast("dict[str, Any]", _plain(plain))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def read_yaml(file: Path) -> dict[str, Any]:
    """Settings from a YAML file; anything but a mapping is refused."""
    import yaml

    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file}: cannot be read as YAML: {reason}.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: expected settings as 'name: value' lines, got {type(values).__name__}.")
    return values


def override(values: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`values` with dotted assignments such as 'rank.threshold=0.1' applied; the right side is read as YAML."""
    import yaml

    result = typing.cast("dict[str, Any]", _plain(dict(values)))
    if isinstance(assignments, str) or not isinstance(assignments, Iterable):
        raise _no_settings(assignments)
    for assignment in assignments:
        if not isinstance(assignment, str):
            raise _no_settings(assignment)
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise ConfigError(f"--set {assignment}: expected name=value, for example --set linear.beam=20.")
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):  # a value like 2020-13-45 is not a date
            raise ConfigError(f"--set {assignment}: cannot read the value {shown(text)} as YAML.") from None
        *parents, last = path.strip().split(".")
        node = result
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise ConfigError(f"--set {assignment}: '{parent}' is a plain value and has no settings inside.")
        node[last] = value
    return result


def _no_settings(value: object) -> ConfigError:
    return ConfigError(
        f"settings: cannot read {shown(value)}. Give a dict, or a list of strings such as ['linear.beam=20']."
    )


def type_name(hint: Any) -> str:
    """A readable type name: `int`, `list of int`, `float or null`; choices as `Literal[...]`."""
    hint = _choices(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if argument is type(None) else type_name(argument) for argument in arguments)
    if origin is not tuple:
        return _name(hint)
    if arguments[-1] is Ellipsis:
        return f"list of {type_name(arguments[0])}"
    return f"list of {len(arguments)} {type_name(arguments[0])}"


def describe(kind: type, *, path: str = "", defaults: Any = None) -> list[tuple[str, str, Any, str]]:
    """Rows (dotted name, type, default, help) of a settings class, nested ones included.

    A nested class has the defaults of the field that contains it: a recipe may differ from its blocks.
    """
    rows: list[tuple[str, str, Any, str]] = []
    for name, (field, hint) in _fields(kind).items():
        where = f"{path}.{name}" if path else name
        default = field.default if defaults is None else getattr(defaults, name)
        if dataclasses.is_dataclass(hint):
            rows += describe(typing.cast(type, hint), path=where, defaults=default)
        else:
            rows.append((where, type_name(hint), default, str(field.metadata.get("doc", ""))))
    return rows
