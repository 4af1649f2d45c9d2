"""Which covariates there are, and how each comes to the target grid."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbagg.geo.align import Alignment, align_categories, align_covariate, bounds_in, source_window
from vbagg.geo.files import some
from vbagg.geo.grid import Grid
from vbagg.geo.rasters import Layer, open_layers

File = str | os.PathLike[str]
Files = Sequence[File] | Mapping[str, File]

RESERVED = (
    "x",
    "y",
    "polygon",
    "cell",
    "coverage",
    "weight",
    "population",
    "area",
    "expected",
    "spread",
    "population_sd",
)
MOST_CATEGORIES = 30


@dataclass(frozen=True)
class Covariate:
    """A layer, and whether its numbers are classes: those that it has near the grid, or `classes` alone."""

    layer: Layer
    is_category: bool
    classes: tuple[float, ...] | None = None


def open_covariates(covariates: Files, categories: Files) -> list[Covariate]:
    """All layers of the files, under distinct names that are not taken."""
    files = ((covariates, False), (categories, True))
    opened = [Covariate(layer, kind) for group, kind in files for layer in _layers(group)]
    taken: dict[str, Layer] = {}
    for layer in (covariate.layer for covariate in opened):
        if layer.name.lower() in RESERVED:
            raise ValueError(
                f"a covariate must not be called {layer.name!r}, which is the name of another column; "
                f"got {layer.path}. Rename the file or the band."
            )
        if layer.name in taken:
            raise ValueError(clash(layer, taken[layer.name]))
        taken[layer.name] = layer
    return opened


def clash(layer: Layer, other: Layer) -> str:
    """What is wrong with two layers of the same name."""
    got = f"{layer.path} and {other.path} both hold {layer.name!r}. Rename one of the files."
    if layer.path == other.path:
        got = f"{layer.path} was named twice. Name it once."
    return f"covariates must have distinct names; {got}"


def open_one(file: File) -> Layer:
    """The layer of a file that must have one layer only."""
    layers = open_layers(file)
    if len(layers) > 1:
        path, names = os.fspath(file), [layer.name for layer in layers]
        raise ValueError(f"{path} must hold one layer; it holds {some(names)}. Name one, as in {path}::{names[0]}.")
    return layers[0]


def masked_near(layer: Layer, grid: Grid) -> Layer:
    """The layer where the grid is, with undeclared codes for missing values that occur there taken as missing."""
    left, _, right, _ = bounds_in(grid, layer.grid.crs)
    layer = layer.facing((left, right)) if left < right else layer
    return layer.masked(*source_window(layer.grid, grid, margin=2))


def align(covariate: Covariate, grid: Grid) -> Alignment:
    """How a covariate comes to the grid."""
    layer = masked_near(covariate.layer, grid)
    if covariate.classes is not None:
        return align_categories(layer, grid, covariate.classes, others_missing=True)
    if covariate.is_category:
        return align_categories(layer, grid, _classes(layer, grid))
    return align_covariate(layer, grid)


def _layers(files: Files) -> list[Layer]:
    if isinstance(files, Mapping):
        return [replace(open_one(file), name=name) for name, file in files.items()]
    if isinstance(files, (str, os.PathLike)):
        files = (files,)
    return [layer for file in files for layer in open_layers(file)]


def possible_classes(layer: Layer, grid: Grid) -> list[int]:
    """The distinct values of a layer near the grid, if it stores whole numbers as few as categories; else none."""
    if np.dtype(layer.dtype).kind not in "iu" or (layer.scale, layer.offset) != (1.0, 0.0):
        return []
    found: set[float] = set()
    for values in values_near(layer, grid):
        found |= set(values.tolist())
        if len(found) > MOST_CATEGORIES:
            return []
    return [int(value) for value in sorted(found)]


def values_near(layer: Layer, grid: Grid) -> Iterator[NDArray[np.float32]]:
    """Distinct values of parts of a layer near the grid."""
    for window in layer.chunks(*source_window(layer.grid, grid, margin=2)):
        values = layer.read(*window)
        yield np.unique(values[~np.isnan(values)])


def _classes(layer: Layer, grid: Grid) -> list[float]:
    """The distinct values of a layer near the grid."""
    found: set[float] = set()
    for values in values_near(layer, grid):
        found |= set(values.tolist())
        if len(found) > MOST_CATEGORIES:
            raise ValueError(
                f"{layer.path} must hold at most {MOST_CATEGORIES} categories; it holds {len(found)} or more "
                f"({some(sorted(found), quote=False)}). Merge rare ones, or use it as an ordinary covariate."
            )
    if not found:
        raise ValueError(f"{layer.path} must have values near the polygons; it has none. Check its extent and CRS.")
    return sorted(found)
