"""Polygons and rasters made ready for a model: a table of pixels, and all layers on one grid."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd

from vbagg import __version__
from vbagg.bags import Bags
from vbagg.errors import did_you_mean
from vbagg.geo.agreement import (
    FORMAT,
    AboutPolygons,
    Document,
    column_kinds,
    read_document,
    require_columns,
    require_fewer,
    require_kind,
    require_layers,
    require_pixels,
    require_polygons,
    require_stored,
)
from vbagg.geo.described import Described
from vbagg.geo.files import appearing, one_line, output_folder
from vbagg.geo.pieces import Pieces
from vbagg.geo.points import Points, points_from
from vbagg.geo.polygons import Polygons
from vbagg.geo.stack import Stack
from vbagg.geo.told import NOTHING, Told
from vbagg.stored import StoredBags, read_rows

DOCUMENT, PIXELS, POLYGONS, STACK = "prepared.json", "pixels.parquet", "polygons.gpkg", "stack.tif"
POINTS = "points.parquet"
LAYER = "polygons"


@dataclass(frozen=True, eq=False)
class Prepared:
    """What `prepare` makes of polygons and rasters.

    Attributes
    ----------
    polygons
        With their responses, and a column `population` (people), `area` (square kilometres) or `expected` (counts).
    stack
        Covariates, and the population if there is one, on the target grid; gaps under polygons are filled.
    table
        Parquet file with the pixels, sorted by polygon and cell.
    covariates, responses
        Names of columns of `pixels`, and of `polygons`.
    notes
        What was done to the data, in sentences.
    exposure
        What weights are: `"population"`, `"area"`, or `"expected"` counts.
    is_spread
        Whether they are a column of the polygons, spread over the cells of each.
    told
        Columns of the polygons with the completeness of reports, and with relative standard deviations of people.
    points
        Surveys at points, None without any; see `vbagg.geo.points`.
    is_shared
        Whether polygons are the outlines of catchments that share cells: the coverage of a pixel is then the part of
        the people of its cell who attend the facility.
    described
        Titles and units of covariates by name, as far as their files say them.
    """

    polygons: Polygons
    stack: Stack
    table: Path
    covariates: tuple[str, ...]
    responses: tuple[str, ...]
    notes: tuple[str, ...]
    exposure: str
    is_spread: bool = False
    told: Told = NOTHING
    points: Points | None = None
    is_shared: bool = False
    described: Mapping[str, Described] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_written", self.table.stat().st_mtime_ns)

    @cached_property
    def pixels(self) -> pd.DataFrame:
        """One row for each cell that a polygon covers.

        Columns: `polygon` (id), `cell` (number), `coverage` (part of the cell in the polygon, or of its people who
        attend the facility), `weight` (coverage times population, or times area in square kilometres; the polygon's
        share where a column was spread), `x` and `y` (kilometres on an equal-area map), and the covariates.
        """
        with self._readable():
            pixels = pd.read_parquet(require_fewer(self.table))
            return require_pixels(pixels, self.polygons, *self._kinds)

    def some_pixels(self, start: int, stop: int) -> pd.DataFrame:
        """Rows of `pixels`, those of whole polygons, checked as all are; the others stay in their file."""
        columns = ["polygon", "cell", "coverage", "weight", "x", "y", *self.covariates]
        with self._readable():
            pixels = read_rows((self.table, start, stop), columns).to_pandas()
            first, last = pd.Index(self.polygons.labels).get_indexer(pixels["polygon"].iloc[[0, -1]])
            own = replace(self.polygons, frame=self.polygons.frame.iloc[first : last + 1].reset_index(drop=True))
            return require_pixels(pixels, own, *self._kinds)

    @property
    def _kinds(self) -> tuple[Stack, tuple[str, ...], str, bool, bool]:
        """What the table of pixels is compared with."""
        return self.stack, self.covariates, self.exposure, self.is_spread, self.is_shared

    @cached_property
    def pieces(self) -> Pieces:
        """The table of pixels in runs of whole polygons, each of which can be in memory."""
        return Pieces.of(self)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Say of what goes wrong that prepared data cannot be read."""
        try:
            if self.table.stat().st_mtime_ns != self._written:  # type: ignore[attr-defined]
                raise ValueError(f"{self.table.name} was written again since; prepare other data into other folders")
            yield
        except Exception as error:  # pyarrow's many kinds
            raise _unreadable(self.table.parent, error) from error

    def bags(self) -> Bags:
        """Pixels grouped by polygon, in the order of the polygons; those without any weight are left out."""
        return self._bags

    def stored_bags(self) -> StoredBags:
        """The same bags in the file of pixels, for workers that read it; here a little is read at a time."""
        with self._readable():
            require_stored(self.table, self.polygons, *self._kinds)
        return Bags.from_parquet(self.table.resolve(), ["x", "y", *self.covariates], "polygon")

    @cached_property
    def _bags(self) -> Bags:
        weighty = set(self._weighty())
        rows = self.pixels if len(weighty) == len(self.polygons) else self.pixels[self.pixels["polygon"].isin(weighty)]
        return Bags(rows[["x", "y", *self.covariates]], rows["polygon"].to_numpy(), rows["weight"].to_numpy())

    @cached_property
    def bag_pixels(self) -> pd.DataFrame:
        """Rows of `pixels` in the order of the rows of `bags`."""
        inside = self.pixels["polygon"].isin(set(self._bags.labels.tolist())).to_numpy()
        return self.pixels[inside].iloc[self._bags.rows]

    def y(self, response: str | None = None) -> pd.Series:
        """Numbers of the polygons that are in `bags`, by id: a response, or another column of the polygons.

        Of a response, NaN where it is missing, and the lower bound where only bounds are known: see `upper`.
        """
        frame = self.polygons.frame
        response = self.responses[0] if response is None else response
        numeric = frame.drop(columns="geometry").select_dtypes("number")
        if response not in numeric:
            raise ValueError(
                f"{self.polygons.path} has no column of numbers called {response!r}{did_you_mean(response, numeric)}"
            )
        values = pd.Series(frame[response].to_numpy(np.float64), index=list(self.polygons.labels), name=response)
        return values.loc[self._weighty()]

    def upper(self, response: str | None = None) -> pd.Series | None:
        """Upper bounds of the totals of which only bounds are known, `y` being the lower; NaN for others, None for all.

        They go to `fit` as `upper`.
        """
        response = self.responses[0] if response is None else response
        here = self.y(response).index
        upper = pd.Series(self.polygons.totals(response).upper, index=list(self.polygons.labels), name=response)
        return None if upper[here].isna().all() else upper[here]

    def completeness(self) -> pd.Series | None:
        """Share of what occurs that is reported in the polygons that are in `bags`; None if nothing was told of it."""
        return None if self.told.completeness is None else self.y(self.told.completeness)

    def weight_sd(self) -> pd.Series | None:
        """Standard deviation of their people, relative to these; None if nothing was told of it."""
        return None if self.told.sd is None else self.y(self.told.sd)

    def reporting(self) -> dict[str, pd.Series]:
        """What was told of these two, by the names that `fit`, `predictive_bags` and `score` have for them."""
        told = {"completeness": self.completeness(), "weight_sd": self.weight_sd()}
        return {name: values for name, values in told.items() if values is not None}

    def label(self, covariate: str) -> str:
        """A covariate as an axis shows it: by title, name and units, as far as they are known."""
        return self.described.get(covariate, Described()).labelled(covariate)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write everything into a folder, which is created if need be."""
        frame, path = self.polygons.frame, Path(folder)
        with output_folder(path), ExitStack() as files:
            document, polygons = (files.enter_context(appearing(path / name)) for name in (DOCUMENT, POLYGONS))
            for own, name in ((self.stack.path, STACK), (self.table, PIXELS)):
                if own.resolve() != (path / name).resolve():
                    shutil.copyfile(own, files.enter_context(appearing(path / name)))
            _write_polygons(frame, polygons)
            if self.points is not None:
                self.points.table.to_parquet(files.enter_context(appearing(path / POINTS)), index=False)
            document.write_text(json.dumps(self._document(), indent=1))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Prepared:
        """Read what `save` wrote."""
        path = Path(folder)
        for name in (DOCUMENT, PIXELS, POLYGONS, STACK):
            if not (path / name).is_file():
                raise ValueError(f"{path} must hold prepared data; {name} is missing. Run `prepare` first.")
        try:
            said = read_document(path / DOCUMENT)
            about = said.polygons
            frame = _read_polygons(require_kind(path / POLYGONS), about)
            polygons = Polygons(frame, about.id, about.path, about.notes, uppers=about.uppers, negative=about.negative)
            told = Told(said.told.completeness, said.told.sd)
            polygons = require_polygons(polygons, said.responses, said.exposure, about.gaps, told)
            stack = require_layers(Stack.open(require_kind(path / STACK)), said.covariates, said.exposure)
            return cls(
                polygons=polygons,
                stack=stack,
                table=require_columns(require_kind(path / PIXELS), said.covariates),
                covariates=said.covariates,
                responses=said.responses,
                notes=said.notes,
                exposure=said.exposure,
                is_spread=said.is_spread,
                told=told,
                points=_read_points(path / POINTS, said, stack),
                is_shared=said.is_shared,
                described=said.described_layers(),
            )
        except Exception as error:  # whatever files that `save` did not write lead to
            raise _unreadable(path, error) from error

    def _document(self) -> dict[str, Any]:
        frame = self.polygons.frame
        return {
            "format": FORMAT,
            "package": __version__,
            "covariates": self.covariates,
            "responses": self.responses,
            "exposure": self.exposure,
            "is_spread": self.is_spread,
            "told": asdict(self.told),
            "is_shared": self.is_shared,
            "notes": self.notes,
            "described": {name: asdict(one) for name, one in self.described.items()},
            "polygons": {
                "id": self.polygons.id,
                "path": self.polygons.path,
                "notes": self.polygons.notes,
                "crs": frame.crs.to_wkt(),
                "columns": {name: str(kind) for name, kind in frame.dtypes.items()},
                "uppers": dict(self.polygons.uppers),
                "negative": self.polygons.negative,
                "gaps": {name: self.polygons.totals(name).gap_sizes for name in self.responses},
            },
            "points": None if self.points is None else self.points.document(),
        }

    def _weighty(self) -> list[Any]:
        """Ids of the polygons that have any weight, in order."""
        return self.polygons.labels[self.polygons.frame[self.exposure].to_numpy(np.float64) > 0].tolist()


def _unreadable(folder: Path, error: Exception) -> ValueError:
    return ValueError(f"{folder} cannot be read as prepared data: {one_line(error)}. Prepare it again.")


def _read_points(path: Path, said: Document, stack: Stack) -> Points | None:
    if said.points is None:
        return None

    def features_of(cells: Any) -> pd.DataFrame:
        return pd.DataFrame(stack.at(cells, said.covariates), columns=list(said.covariates))

    return points_from(require_kind(path), said.points, stack.grid, features_of)


def _write_polygons(frame: gpd.GeoDataFrame, path: Path) -> None:
    import pyogrio

    names = {"FID": "fid_", "GEOMETRY_NAME": "geometry"}  # a column of the polygons may be called `fid`
    pyogrio.write_dataframe(
        frame,
        path,
        layer=LAYER,
        driver="GPKG",
        layer_options=names,
        geometry_type="Unknown",
        promote_to_multi=False,
    )


def _read_polygons(path: Path, about: AboutPolygons) -> gpd.GeoDataFrame:
    import pyogrio

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        frame = pyogrio.read_dataframe(path, layer=LAYER)
    if warned:  # files that `save` wrote give no reason to
        raise ValueError(f"{path.name}: {warned[0].message}")
    frame = frame.set_crs(about.crs, allow_override=True)
    return frame.astype(column_kinds(about.columns))[list(about.columns)]
