"""All inputs, as far as they can be read: what is wrong with one does not hide what is wrong with another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import shapely

from vbagg.doctor.findings import OF_BAD_INPUT, Gathered
from vbagg.doctor.words import number
from vbagg.geo.bounds import marks_of
from vbagg.geo.catchment_words import CatchmentWords
from vbagg.geo.covariates import Covariate, clash, open_covariates, open_one
from vbagg.geo.exposure import BY_AREA, Exposure, exposure_of
from vbagg.geo.files import some
from vbagg.geo.joining import joined_by
from vbagg.geo.layout import SD_FILE, Tell
from vbagg.geo.people_errors import EXACT, PopulationSd, population_sd_of
from vbagg.geo.polygon_rows import PolygonRows, read_own_rows
from vbagg.geo.polygons import ROW_NUMBER, Polygons, checked, flaws, free_name
from vbagg.geo.rasters import Layer
from vbagg.geo.told import NOTHING, Told

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data


PATIENCE = 20.0
"""Seconds between announcements of what reading has come to."""


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
    exposure, spread_by
        What cells are weighted by, with the column if that could be read; and the raster that it is spread by.
    told, doubt, sd
        Columns on reports and people that could be read; how far off people may be; and the raster that says it.
    """

    polygons: Polygons | None
    responses: tuple[str, ...]
    people: Layer | None
    covariates: tuple[Covariate, ...]
    exposure: Exposure
    spread_by: Layer | None
    told: Told = NOTHING
    doubt: PopulationSd = EXACT
    sd: Layer | None = None

    def can_make_a_grid(self, data: Data) -> bool:
        """Not if rasters were named, but none of them could be read."""
        named = data.population is not None or data.spread_by is not None or data.covariate or data.category
        return not named or data.resolution is not None or bool(self.layers)

    @property
    def layers(self) -> list[Layer]:
        """The population, or what it is spread by, then the covariates."""
        first = self.people or self.spread_by
        return [*([first] if first else []), *(covariate.layer for covariate in self.covariates)]


def read_inputs(data: Data, found: Gathered, tell: Tell = lambda text: None) -> Inputs:
    """Open every file that the settings name."""
    weighed = data.population, data.population_column, data.exposure_column, data.spread_by
    exposure = found.attempt("exposure", "settings", lambda: exposure_of(*weighed)) or BY_AREA
    words = CatchmentWords.of(data)
    if not words.are_given:
        polygons, responses, exposure, told = _polygons(data, exposure, found)
    else:
        responses, told = data.response, Told(data.completeness_column, data.population_sd_column)
        polygons = _catchments(data, words, exposure, told, found, tell)
    people = lit = None
    if data.population is not None:
        people = found.attempt("population-file", _name(data.population), partial(open_one, data.population))
    if data.spread_by is not None:
        lit = found.attempt("spread-by-file", _name(data.spread_by), partial(open_one, data.spread_by))
    given = data.population_sd, data.population_sd_column, data.population_errors, data.population
    doubt = found.attempt("population-sd", "settings", lambda: population_sd_of(*given, exposure)) or EXACT
    sd = None
    if doubt.file is not None:
        sd = found.attempt(SD_FILE, _name(doubt.file), partial(open_one, doubt.file))
    return Inputs(polygons, responses, people, _covariates(data, found), exposure, lit, told, doubt, sd)


Look = Callable[..., Polygons]
"""`checked`, for totals as they are written here."""
Sound = tuple[Polygons | None, tuple[str, ...], Exposure, Told]
"""Polygons, their columns with totals, what cells are weighted by, and columns on reports, as far as can be read."""


def _catchments(
    data: Data, words: CatchmentWords, exposure: Exposure, told: Told, found: Gathered, tell: Tell
) -> Polygons | None:
    """Facilities that share cells, if the words about them go together."""
    _require_response(data, found)
    own = words.facilities if words.shares is None else words.shares
    others = data.polygons, data.totals, exposure, data.points
    if found.attempt("catchments", "settings", lambda: words.require(*others)) is None:
        return None
    return found.attempt(
        "catchments",
        _name(own),
        lambda: words.read(
            data.polygons,
            data.id,
            data.response,
            layer=data.layer,
            totals=data.totals,
            on=data.on,
            sheet=data.sheet,
            unmatched=data.unmatched,
            suppressed=data.suppressed,
            negative=data.negative,
            told=told,
            exposure=exposure,
            tell=tell,
        ),
    )


def _require_response(data: Data, found: Gathered) -> None:
    if not data.response:
        text = "A response is missing. Name the column with the totals by `--response`."
        found.add("error", "no-response", text, "settings")


def _polygons(data: Data, exposure: Exposure, found: Gathered) -> Sound:
    _require_response(data, found)
    found.attempt("catchments", "settings", lambda: CatchmentWords.of(data).require(None, None, exposure, data.points))
    if data.polygons is None:
        text = "Polygons are missing. Name the file with `--polygons`, or `polygons` in [data]."
        found.add("error", "no-polygons", text, "settings")
        return None, (), exposure, NOTHING
    path, where, known = data.polygons, _name(data.polygons), len(found.found)
    table = found.attempt("totals", "settings", lambda: joined_by(data.totals, data.on, data.sheet, data.unmatched))
    wanted = (data.id, None if table is None else table.key)
    own = found.attempt("polygon-file", where, lambda: read_own_rows(path, data.layer, wanted))
    if own is None:
        return None, (), exposure, NOTHING
    rows = own
    if table is not None:
        rows = found.attempt("totals", table.file, lambda: table.join(own, data.id)) or own
    marks = found.attempt("suppressed", "settings", lambda: marks_of(data.suppressed)) or {}
    look: Look = partial(checked, marks=marks, negative=data.negative)
    responses, told = data.response, Told(data.completeness_column, data.population_sd_column)
    if len(found.found) > known:  # there may be no column without the table
        responses = tuple(name for name in responses if name in rows.frame)
        exposure = exposure if exposure.column is None or exposure.column in rows.frame else Exposure(exposure.kind)
        told = told.without(set(told.words) - set(rows.frame))
    try:
        return look(rows, data.id, responses, exposure, told=told), responses, exposure, told
    except OF_BAD_INPUT as error:
        whole, known = str(error), len(found.found)
    read = _sound_part(rows, data.id, responses, exposure, found, look, told)
    if len(found.found) == known:  # nothing is wrong with any part alone
        found.add("error", "polygon-file", whole, where)
    return read


def _sound_part(
    rows: PolygonRows,
    id: str | None,
    wanted: Sequence[str],
    exposure: Exposure,
    found: Gathered,
    look: Look,
    told: Told,
) -> Sound:
    """Polygons with the columns that are sound; whatever is wrong is taken down, columns apart from geometry."""
    path, where, frame = rows.path, _name(rows.path), rows.frame
    if frame.empty:
        return found.attempt("polygon-file", where, lambda: checked(rows, id)), (), exposure, NOTHING
    squares = [shapely.box(2 * at, 0, 2 * at + 1, 1) for at in range(len(frame))]
    columns = replace(rows, frame=frame.set_geometry(squares, crs="EPSG:6933"))
    responses: list[str] = []
    if found.attempt("id", f"{where}, column {id or rows.key}", lambda: checked(columns, id)) is None:
        id = free_name(ROW_NUMBER, frame)
        frame[id] = columns.frame[id] = np.arange(1, len(frame) + 1)
    for name in wanted:
        place = f"{_name(rows.origin(name).path)}, column {name}"
        with_it = partial(look, columns, id, [*responses, name])
        if found.attempt("response", place, with_it) is not None:
            responses.append(name)
    if exposure.column is not None:
        place = f"{_name(rows.origin(exposure.column).path)}, column {exposure.column}"
        if found.attempt("exposure", place, lambda: look(columns, id, responses, exposure)) is None:
            exposure = Exposure(exposure.kind)
    for name, what in told.words.items():
        place, alone = f"{_name(rows.origin(name).path)}, column {name}", told.without(set(told.words) - {name})
        with_it = partial(look, columns, id, responses, exposure, told=alone)
        if found.attempt(what.replace(" ", "-"), place, with_it) is None:
            told = told.without({name})
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
        rows = replace(rows, frame=frame.drop(index=frame.index[list(wrong)]).reset_index(drop=True))
    if rows.frame.empty:
        return None, tuple(responses), exposure, told
    polygons = found.attempt("geometry", where, lambda: look(rows, id, responses, exposure, told=told))
    return polygons, tuple(responses), exposure, told


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


def seldom(announce: Tell, tell: Tell) -> Tell:
    """Tell everything, and announce what is told when much time has passed since the last announcement."""
    last = time.monotonic()

    def told(text: str) -> None:
        nonlocal last
        tell(text)
        if time.monotonic() - last > PATIENCE:
            last = time.monotonic()
            announce(text)

    return told


def _name(path: Path | str | None) -> str:
    return Path(path or "").name
