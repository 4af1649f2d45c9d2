"""Reference of the command line as Markdown, made from the commands themselves: ``python -m vbagg.cli.reference``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from vbagg.cli import app

HEADING = """# Commands and options

Made by `python -m vbagg.cli.reference > docs/reference.md` from the commands themselves.

Options of `run`, `check`, `prepare`, `fit`, `predict`, `validate` and `report` can also stand in a TOML file
(`--config`), under the section named in brackets and with underscores for hyphens. `vbagg run` writes the complete file
as `settings.toml` into its folder.
"""


def reference() -> str:
    """All commands with their options."""
    group = typer.main.get_command(app)
    parts = [HEADING]
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        parts += [f"## vbagg {name}\n", inspect.cleandoc(command.help or "") + "\n", *_table(command)]
    return "\n".join(parts).rstrip() + "\n"


def _table(command: Any) -> Iterator[str]:
    yield "| option | what it is | default |"
    yield "|---|---|---|"
    for parameter in command.params:
        names = ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))
        text = " ".join((getattr(parameter, "help", None) or "").split())
        yield f"| {names} | {text}{_section(parameter)} | {_default(parameter)} |"
    yield ""


def _section(parameter: Any) -> str:
    from vbagg.workflow.settings import OPTIONS

    name = (parameter.name or "").split("_")[0]
    own = name in OPTIONS and parameter.name != name
    return f" [{name}]" if own else ""


def _default(parameter: Any) -> str:
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return f"`{shown}`"
    value = parameter.default
    return "" if value is None or value is False or callable(value) or value == () else f"`{value}`"


if __name__ == "__main__":
    print(reference(), end="")
