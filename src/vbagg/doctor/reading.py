"""All inputs, as far as they can be read: what is wrong with one does not hide what is wrong with another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import geopandas as gpd
import numpy as np
import shapely

from vbagg.doctor.findings import OF_BAD_INPUT, Gathered
from vbagg.doctor.words import number
from vbagg.geo.covariates import Covariate, clash, open_covariates, open_one
from vbagg.geo.files import some
from vbagg.geo.polygons import ROW_NUMBER, Polygons, flaws, free_name, read_frame, read_polygons
from vbagg.geo.rasters import Layer

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data


@dataclass(frozen=True)
class Inputs:
    """What could be read.

    Attributes
    ----------
    polygons
        With the columns that are as they must be, and without rows that are not polygons.
    responses
        Columns with totals that could be read.
    people
        The population raster.
    covariates
        Rasters of covariates and categories.
    """

    polygons: Polygons | None
    responses: tuple[str, ...]
    people: Layer | None
    covariates: tuple[Covariate, ...]

    def can_make_a_grid(self, data: Data) -> bool:
        """Not if rasters were named, but none of them could be read."""
        named = data.population is not None or data.covariate or data.category
        return not named or data.resolution is not None or self.people is not None or bool(self.covariates)

    @property
    def layers(self) -> list[Layer]:
        """The population, then the covariates."""
        return [*([self.people] if self.people else []), *(covariate.layer for covariate in self.covariates)]


def read_inputs(data: Data, found: Gathered) -> Inputs:
    """Open every file that the settings name."""
    polygons, responses = _polygons(data, found)
    people = None
    if data.population is not None:
        people = found.attempt("population-file", _name(data.population), partial(open_one, data.population))
    return Inputs(polygons, responses, people, _covariates(data, found))


def _polygons(data: Data, found: Gathered) -> tuple[Polygons | None, tuple[str, ...]]:
    if not data.response:
        text = "A response is missing. Name the column with the totals by `--response`."
        found.add("error", "no-response", text, "settings")
    if data.polygons is None:
        text = "Polygons are missing. Name the file with `--polygons`, or `polygons` in [data]."
        found.add("error", "no-polygons", text, "settings")
        return None, ()
    try:
        return read_polygons(data.polygons, data.id, data.layer, data.response), data.response
    except OF_BAD_INPUT as error:
        whole = str(error)
    path, where, known = str(data.polygons), _name(data.polygons), len(found.found)
    frame = found.attempt("polygon-file", where, lambda: read_frame(path, data.layer, data.id))
    read = (None, ()) if frame is None else _sound_part(frame, data, found)
    if len(found.found) == known:  # nothing is wrong with any part alone
        found.add("error", "polygon-file", whole, where)
    return read


def _sound_part(frame: gpd.GeoDataFrame, data: Data, found: Gathered) -> tuple[Polygons | None, tuple[str, ...]]:
    """Polygons with the columns that are sound; whatever is wrong is taken down, columns apart from geometry."""
    path, where = str(data.polygons), _name(data.polygons)

    def read(shapes: gpd.GeoDataFrame, id: str | None, columns: Sequence[str]) -> Polygons:
        try:
            return replace(read_polygons(shapes, id, None, columns), path=path)
        except ValueError as error:  # the message names the file where it can
            raise ValueError(path + str(error).removeprefix("polygons")) from None

    if frame.empty:
        return found.attempt("polygon-file", where, lambda: read(frame, None, ())), ()
    squares = [shapely.box(2 * at, 0, 2 * at + 1, 1) for at in range(len(frame))]
    columns = frame.set_geometry(squares, crs="EPSG:6933")
    id = data.id
    responses: list[str] = []
    if found.attempt("id", f"{where}, column {id}", lambda: read(columns, id, ())) is None:
        id = free_name(ROW_NUMBER, frame)
        frame[id] = columns[id] = np.arange(1, len(frame) + 1)
    for name in data.response:
        place = f"{where}, column {name}"
        if found.attempt("response", place, lambda name=name: read(columns, id, [*responses, name])) is not None:  # type: ignore[misc]
            responses.append(name)
    wrong = flaws(frame.geometry)
    if wrong:
        labels = frame[id].to_numpy() if id in frame else np.arange(1, len(frame) + 1)
        bad = labels[list(wrong)].tolist()
        shown = [f"{label!r} {flaw}" for label, flaw in zip(bad, wrong.values(), strict=True)]
        text = (
            f"{path} must hold polygons; {number(bad, 'row is', 'rows are')} none: {some(shown, quote=False)}. "
            "Remove them, or give them polygons."
        )
        found.add("error", "geometry", text, where, bad)
        frame = frame.drop(index=frame.index[list(wrong)])
    polygons = None if frame.empty else found.attempt("geometry", where, lambda: read(frame, id, responses))
    return polygons, tuple(responses)


def _covariates(data: Data, found: Gathered) -> tuple[Covariate, ...]:
    opened: list[Covariate] = []
    for files, is_category in ((data.covariate, False), (data.category, True)):
        for file in files:
            groups = ((), [file]) if is_category else ([file], ())
            opened += found.attempt("covariate-file", _name(file), partial(open_covariates, *groups)) or []
    distinct: dict[str, Covariate] = {}
    for covariate in opened:
        first = distinct.setdefault(covariate.layer.name, covariate)
        if first is not covariate:
            found.add("error", "covariate-names", clash(covariate.layer, first.layer), _name(covariate.layer.path))
    return tuple(distinct.values())


def _name(path: Path | str | None) -> str:
    return Path(path or "").name
