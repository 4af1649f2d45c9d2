"""Maps and tables of a model on new ground, and how much of it lies beyond the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vbagg.geo.aggregate import aggregate, polygon_frame, write_polygons
from vbagg.geo.answers import Question, ask
from vbagg.geo.beyond import Beyond, beyond, shares_beyond
from vbagg.geo.contents import Contents
from vbagg.geo.files import appearing, output_folder
from vbagg.geo.ground import EVERY_CELL
from vbagg.geo.ground_cells import BEYOND, GroundCells, GroundContents, NewPieces, NewTotals
from vbagg.geo.maps import fill_maps, scratch_folder
from vbagg.geo.overlay import shares_inside
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.trained import Trained
from vbagg.progress import Report, reporting

SUMMARY, TABLE = "extrapolation.json", "extrapolation.csv"


@dataclass(frozen=True)
class GroundMaps:
    """What was written of one response.

    Attributes
    ----------
    maps
        Path by name: those of `write_maps`, `extrapolation` and `extrapolation_place`.
    beyond
        How much lies beyond the training data.
    """

    maps: Mapping[str, Path]
    beyond: Beyond


def write_ground(
    model: Any,
    prepared: Prepared,
    trained: Trained,
    folder: Path,
    contents: Contents,
    *,
    others: Sequence[tuple[str, Polygons]] = (),
    progress: bool | Report | None = None,
    keep: Path | None = None,
    client: Any = None,
) -> GroundMaps:
    """Write all maps of a model on new ground, the table of its polygons, and what is extrapolated.

    Cells are new individuals: nothing that was observed in the same place or in a polygon of the same name says
    anything of their own effects, or of that of their polygon. What the model says of the place stays.

    Parameters
    ----------
    model
        A fitted model.
    prepared
        What `prepare_ground` made.
    trained
        What the training data cover.
    folder
        Where the files go.
    contents
        What `contents_of` says of the model and the new ground.
    others
        Further polygons to sum rates over, with names of their files.
    progress, keep, client
        As for `write_maps`.
    """
    mapped = GroundContents.of(contents, model, trained.edge(model), trained.rows)
    totals = NewTotals(prepared.polygons.labels, mapped.level, mapped.units.per, mapped.units.has_counts)
    questions: list[Question] = [GroundCells(mapped)]
    questions += [] if is_every_cell(prepared) else [totals]
    with output_folder(folder) as out, scratch_folder(out) as fresh, reporting(progress, "maps") as report:
        place, pieces = fresh / "pieces" if keep is None else keep, NewPieces(prepared.pieces)
        answers = ask(model, pieces, questions, place, keep=keep is not None, client=client, report=report)
        written = fill_maps(prepared, mapped, answers[0], fresh, report)
        columns = totals.columns(answers[1], len(prepared.polygons)) if len(answers) > 1 else None
        maps = {name: path.replace(out / path.name) for name, path in written.items()}
    found = beyond(model, prepared, maps, trained)
    with appearing(folder / SUMMARY) as summary, appearing(folder / TABLE) as table:
        summary.write_text(found.to_json(), encoding="utf-8")
        found.table().to_csv(table, index=False, float_format="%.6g")
    if columns is not None:
        write_polygons(_table(model, prepared, mapped, columns, maps), folder)
    shared: dict[str, Any] = {"keep": keep, "client": client, "as_new": True}
    for name, polygons in others:
        units = mapped.units
        sums = aggregate(model, prepared, polygons, units.response, mapped.level, units.per, **shared)
        write_polygons(_with_shares(sums, prepared, polygons, maps), folder, name)
    return GroundMaps(maps, found)


def is_every_cell(prepared: Prepared) -> bool:
    """Whether no polygons were named, so that blocks of cells stand for them."""
    return prepared.polygons.path == EVERY_CELL


def _table(
    model: Any, prepared: Prepared, contents: GroundContents, columns: dict[str, Any], maps: Mapping[str, Path]
) -> Any:
    """The polygons with their totals and rates."""
    polygons, units = prepared.polygons, contents.units
    covered = shares_inside(polygons, prepared.stack.grid, columns.pop("cells"))
    columns = {"covered": covered, prepared.exposure: columns.pop("exposure")} | columns
    frame = polygon_frame(polygons, columns, model, units, contents.level)
    return _with_shares(frame, prepared, polygons, maps)


def _with_shares(table: Any, prepared: Prepared, polygons: Polygons, maps: Mapping[str, Path]) -> Any:
    """The table with the share of the exposure that is extrapolated."""
    if BEYOND not in maps:
        return table
    attributes = table.attrs
    table = table.assign(extrapolated=shares_beyond(prepared, polygons, maps[BEYOND]))
    table.attrs = attributes
    return table
