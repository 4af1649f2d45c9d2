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
from vbagg.geo.covariates import Covariate, open_covariates, open_one
from vbagg.geo.files import some
from vbagg.geo.polygons import Polygons, read_frame, read_polygons
from vbagg.geo.rasters import Layer

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data

UNIT_SQUARE = shapely.box(0, 0, 1, 1)


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
    columns = frame.set_geometry([UNIT_SQUARE] * len(frame), crs="EPSG:4326")
    id, responses = data.id, []
    if found.attempt("id", f"{where}, column {id}", lambda: read(columns, id, ())) is None:
        id = None
    for name in data.response:
        place = f"{where}, column {name}"
        if found.attempt("response", place, lambda name=name: read(columns, id, [name])) is not None:  # type: ignore[misc]
            responses.append(name)
    kinds = frame.geometry.geom_type
    polygonal = kinds.isin(["Polygon", "MultiPolygon", "GeometryCollection"]) & ~frame.geometry.is_empty
    if not polygonal.all():
        labels = frame[id].to_numpy() if id in frame else np.arange(1, len(frame) + 1)
        bad = labels[~polygonal.to_numpy()].tolist()
        text = (
            f"{path} must hold polygons; {len(bad)} rows have another geometry or none ({some(bad)}). "
            "Remove them, or give them polygons."
        )
        found.add("error", "geometry", text, where, bad)
        frame = frame[polygonal]
    polygons = found.attempt("geometry", where, lambda: read(frame, id, responses)) if polygonal.any() else None
    if polygons is not None and id != data.id:  # which was named, but is wrong
        polygons = replace(polygons, notes=tuple(note for note in polygons.notes if "no id was named" not in note))
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
            name, path, other = covariate.layer.name, covariate.layer.path, first.layer.path
            got = f"{path} and {other} both hold {name!r}. Rename one."
            if path == other:
                got = f"{path} was named twice. Name it once."
            text = f"covariates must have distinct names; {got}"
            found.add("error", "covariate-names", text, _name(path))
    return tuple(distinct.values())


def _name(path: Path | str | None) -> str:
    return Path(path or "").name
