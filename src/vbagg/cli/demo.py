"""``vbagg demo``: the demonstration."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vbagg.cli.wrong_input import told_in_one_line


class Link(StrEnum):
    """Links of a Poisson rate."""

    square = "square"
    exp = "exp"


def demo_command(
    bags: Annotated[int, typer.Option(min=10, help="Number of training bags.")] = 150,
    link: Annotated[Link, typer.Option(help="Link between the Gaussian process and the rate.")] = Link.square,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the figure.")] = Path("demo"),
) -> None:
    """Learn the rates of 22,000 individuals from 150 totals, score them against the truth, and draw them."""
    from vbagg.demo import demonstrate

    with told_in_one_line(OSError):
        demonstrate(bags, str(link), seed, out)
