"""``vbagg demo``: the whole job on a simulated country, or the paper's swiss roll."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from vbagg.cli.stages import carry_out_all
from vbagg.cli.wrong_input import told_in_one_line

THRESHOLD = 50.0


class Which(StrEnum):
    """Demonstrations."""

    country = "country"
    roll = "roll"


def demo_command(
    which: Annotated[Which, typer.Argument(help="A simulated country, or the paper's swiss roll.")] = Which.country,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the data.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("demo"),
) -> int:
    """Show the whole job, with a known truth to compare with.

    `country` writes polygons and rasters as a malaria programme has them, runs `vbagg run` on them, and tells how far
    the map is from the truth. `roll` learns the rates of 22,000 individuals from 150 totals, from arrays.
    """
    if which is Which.roll:
        from vbagg.demo import demonstrate

        with told_in_one_line(OSError):
            demonstrate(150, "square", seed or 0, out)
        return 0
    return _country(out, seed)


def _country(out: Path, seed: int | None) -> int:
    with told_in_one_line(ValueError, OSError, ImportError):
        from vbagg.geo.country_files import write_country
        from vbagg.room import room_for
        from vbagg.workflow.truth import distance_from_truth

        out.mkdir(parents=True, exist_ok=True)
        with room_for("the simulated country", out):
            files = write_country(out / "data", overwrite=True, **({} if seed is None else {"seed": seed}))
    print(f"A simulated country is in {files.folder}: see {files.readme}.")
    data = {
        "polygons": files.districts,
        "id": "id",
        "response": ("cases",),
        "population": files.population,
        "covariate": tuple(files.covariates.values()),
    }
    given: dict[str, dict[str, Any]] = {
        "data": data,
        "maps": {"to": (files.health_areas,), "threshold": THRESHOLD},
        "report": {"title": "Simulated country"},
    }
    status = carry_out_all(given, out / "results")
    if status == 0:
        distance = distance_from_truth(out / "results" / "maps" / "cases", files.truth, 1000.0, 0.95)
        print("\n".join(distance.lines()))
    return status
