"""Options of the workflow's commands, made from the fields of the settings: one place for names, help and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from vbagg.workflow.settings import BARE, FLAG, OPTIONS, Settings, mark, read_settings


def with_settings(*sections: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command an option for each field of these sections, or for single ones such as `report.language`.

    It gets those that were used as `given`.

    The command itself takes `given`, a table by section and key, and its own parameters.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "given"]
        made = {_option(section, key): (section, key) for section, key in _fields(sections)}

        def called(**arguments: Any) -> int:
            given: dict[str, dict[str, Any]] = {}
            for parameter, (section, key) in made.items():
                value = arguments.pop(parameter.name)
                if value is not None and value != []:
                    given.setdefault(section, {})[key] = tuple(value) if isinstance(value, list) else value
            return command(given=given, **arguments)

        called.__doc__, called.__name__ = command.__doc__, command.__name__
        called.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
        return called

    return decorate


def _fields(sections: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in sections:
        section, _, key = name.partition(".")
        yield from ((section, each) for each in OPTIONS[section].model_fields if key in ("", each))


def base_settings(config: Path | None) -> Settings:
    """Settings of a TOML file, or the defaults."""
    return Settings() if config is None else read_settings(config)


def _option(section: str, key: str) -> inspect.Parameter:
    field = OPTIONS[section].model_fields[key]
    flag = (mark(field, FLAG) or key).replace("_", "-")
    default = field.default
    shown: Any = False if default in (None, (), {}) else str(default)
    names = [f"--{flag}/--no-{flag}"] if _kinds(field) == [bool] else [f"--{flag}"]
    option = typer.Option(*names, help=_help(field), show_default=shown, rich_help_panel=_panel(section))
    annotation = Annotated[_plain(field) | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(f"{section}_{key}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def with_values(arguments: Sequence[str]) -> list[str]:
    """Arguments in which options that may stand without a value have one."""
    bare = {
        f"--{(mark(field, FLAG) or key).replace('_', '-')}": value
        for section in OPTIONS.values()
        for key, field in section.model_fields.items()
        if (value := mark(field, BARE)) is not None
    }
    following = [*arguments[1:], "--"]
    return [
        f"{argument}={bare[argument]}" if argument in bare and after.startswith("-") else argument
        for argument, after in zip(arguments, following, strict=True)
    ]


def _help(field: FieldInfo) -> str:
    kind = _kinds(field)[-1]
    choices = f" One of {', '.join(get_args(kind))}." if get_origin(kind) is Literal else ""
    return f"{field.description}{choices}"


def _panel(section: str) -> str:
    return (OPTIONS[section].__doc__ or "").splitlines()[0].rstrip(".")


def _plain(field: FieldInfo) -> Any:
    """The type that the command line reads: choices, and what can be of several types, as text; tuples as lists."""
    kind, *others = _kinds(field)
    if get_origin(kind) is Literal or others:
        return str
    if get_origin(kind) is dict:
        return list[str]
    if get_origin(kind) is tuple:
        member = get_args(kind)[0]
        return list[get_args(member)[0] if get_origin(member) is Annotated else member]  # type: ignore[misc]
    return kind


def _kinds(field: FieldInfo) -> list[Any]:
    """What a field can be, apart from None."""
    annotation = field.annotation
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return [kind for kind in members if kind is not type(None)]
