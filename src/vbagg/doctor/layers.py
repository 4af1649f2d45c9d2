"""Covariates: where they are missing, and whether they can say anything that the others do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vbagg.doctor.facts import coarseness
from vbagg.doctor.findings import Gathered
from vbagg.doctor.overlaid import Overlaid, Raster
from vbagg.doctor.words import most, number
from vbagg.geo.covariates import possible_classes
from vbagg.geo.files import percent, some
from vbagg.geo.grid import Floats
from vbagg.numerals import ratio

MUCH = 0.01
"""Part of the exposure without a covariate from which on it must be looked at."""
LITTLE = 0.001
"""Part of the exposure and of the cells up to which it is not worth a word."""
HALF = 0.5
"""The same for one polygon."""
ALIKE = 0.95
"""Correlation from which on two covariates say the same."""
SAME = 1e-6
"""Part of a covariate's variance that counts as none."""
RARE = 0.01
"""Part of the area up to which a class is rare."""
FEWEST_CLASSES = 3
"""Values from which on whole numbers may be those of classes; of two, it makes no difference."""
COARSE = 5.0
"""How many times as long as the grid's the cells of a raster may be."""
TREATMENT = {
    "nearest": "Such cells take the value of the nearest cell that has one",
    "drop": "Such cells are left out",
    "median": "Such cells get the median, and a column that marks them",
}


def check_layers(laid: Overlaid, policy: str, found: Gathered) -> None:
    """Look at all covariates."""
    usable = []
    for raster in laid.rasters:
        check_file(raster, found)
        if not raster.has_values:
            text = (
                f"{raster.layer.path} must have values under the polygons; the covariate {raster.layer.name!r} has "
                "none there. Check its extent, CRS and missing values, or leave it out."
            )
            found.add("error", "no-values", text, raster.layer.file)
        else:
            usable.append(raster)
    _check_gaps(laid, usable, policy, found)
    if policy == "drop" and usable and laid.totals.any() and not laid.any_complete(usable):
        text = "No cell with people has all covariates, so nothing is left. Choose another `missing` than 'drop'."
        found.add("error", "no-values", text, "settings")
    plain = [raster for raster in usable if not raster.is_category and not _check_variation(raster, found)]
    for raster in usable:
        if raster.is_category:
            _check_classes(raster, found)
        else:
            _check_amounts(laid, raster, found)
    _check_alike(laid, plain, found)


def check_file(raster: Raster, found: Gathered) -> None:
    """Look at what was assumed about a raster of any kind, and at the size of its cells."""
    for note in raster.layer.notes:
        found.add("advice", "assumed", note, raster.layer.file)
    times = coarseness(raster)
    if times > COARSE:
        text = (
            f"{raster.layer.file}: its cells are {ratio(times)} times as long as those of the grid, so it says little "
            "of what happens within them. Use a finer raster if there is one, or a larger `resolution`."
        )
        found.add("advice", "coarse", text, raster.layer.file)


def gap_shares(laid: Overlaid, raster: Raster) -> tuple[float, Floats]:
    """Part of the exposure, in all and of each polygon, that lacks a covariate."""
    gone = raster.gap_weight
    total = laid.totals.sum()
    shares = np.divide(gone, laid.totals, out=np.zeros_like(gone), where=laid.totals > 0)
    return float(gone.sum() / total) if total > 0 else 0.0, shares


def _check_gaps(laid: Overlaid, rasters: Sequence[Raster], policy: str, found: Gathered) -> None:
    small = []
    for raster in rasters:
        if not raster.n_gaps:
            continue
        share, shares = gap_shares(laid, raster)
        bad = np.flatnonzero(shares > HALF)
        if share <= MUCH and not bad.size:
            if max(share, raster.n_gaps / laid.n_cells) > LITTLE:
                small.append((raster, share))
            continue
        text = (
            f"{raster.layer.file}: {raster.layer.name} is missing in {raster.n_gaps:,} of {laid.n_cells:,} "
            f"cells under polygons, with {percent(share, 1.0)} of the {laid.weighed_by}; most in "
            f"{most(laid.labels, shares, np.flatnonzero(shares))}. {TREATMENT[policy]}"
        )
        gone = np.flatnonzero(shares == 1) if policy == "drop" else bad[:0]
        if gone.size:
            text += f", and {number(gone, 'polygon', 'polygons')} with them ({some(laid.labels[gone].tolist())})"
        text += ". Fill the raster, or choose another `missing`."
        found.add("warning", "missing-covariate", text, raster.layer.file, laid.labels[bad].tolist())
    if small:
        names = [f"{raster.layer.name} {percent(share, 1.0)}" for raster, share in small]
        cells = max(raster.n_gaps for raster, _ in small)
        text = (
            f"{number(small, 'covariate is', 'covariates are')} missing in {'up to ' * (len(small) > 1)}{cells:,} of "
            f"{laid.n_cells:,} cells under polygons ({laid.weighed_by}: {', '.join(names)}). {TREATMENT[policy]}."
        )
        where = some([raster.layer.file for raster, _ in small], quote=False)
        found.add("advice", "missing-covariate", text, where)


def _check_variation(raster: Raster, found: Gathered) -> bool:
    """Take down a covariate that does not vary, in all or within polygons; whether it is constant in all."""
    if raster.high - raster.low <= SAME * abs(raster.mean):
        text = (
            f"{raster.layer.file}: {raster.layer.name} is {raster.first:g} everywhere under the polygons, so it "
            "says nothing. Leave it out, or check the file."
        )
        found.add("warning", "constant", text, raster.layer.file)
        return True
    within, around = raster.variation()
    if within <= SAME * around and raster.most_pixels > 1:
        text = (
            f"{raster.layer.file}: {raster.layer.name} differs between polygons but not within them, so it cannot say "
            "where in a polygon the rate is high. Use a finer raster if there is one."
        )
        found.add("advice", "constant-within", text, raster.layer.file)
    return False


def _check_amounts(laid: Overlaid, raster: Raster, found: Gathered) -> None:
    """Take down a covariate whose numbers may be those of classes."""
    values = possible_classes(raster.layer, laid.grid)
    if len(values) >= FEWEST_CLASSES:
        text = (
            f"{raster.layer.file}: {raster.layer.name} holds only {len(values)} whole numbers "
            f"({some(values, quote=False)}). If they are classes, such as land cover, name the file by `--category`: a "
            "covariate takes them for amounts."
        )
        found.add("advice", "classes", text, raster.layer.file)


def _check_classes(raster: Raster, found: Gathered) -> None:
    shares = raster.classes
    names = [name.partition("=")[2] for name in raster.alignment.names]
    if shares.max() > 1 - SAME:
        text = (
            f"{raster.layer.file}: all cells under the polygons are of class {names[int(shares.argmax())]}, so the "
            "classes say nothing. Leave the file out, or check it."
        )
        found.add("warning", "constant", text, raster.layer.file)
        return
    rare = [f"{name} ({percent(share, 1.0)})" for name, share in zip(names, shares, strict=True) if share < RARE]
    if rare:
        text = (
            f"{raster.layer.file}: {number(rare, 'class is', 'classes are')} rare under the polygons: "
            f"{some(rare, quote=False)} of the area. Their effect can hardly be learnt; merge them with others."
        )
        found.add("advice", "rare-class", text, raster.layer.file)


def _check_alike(laid: Overlaid, rasters: Sequence[Raster], found: Gathered) -> None:
    """Take down pairs that are almost the same up to shift, scale and sign, in cells where all have values."""
    if len(rasters) < 2:
        return
    correlation = laid.correlation(rasters)
    if correlation is None:
        return
    for i, j in zip(*np.nonzero(np.triu(np.abs(correlation) > ALIKE, k=1)), strict=True):
        one, other = rasters[i].layer, rasters[j].layer
        text = (
            f"{one.file} and {other.file}: {one.name} and {other.name} are almost the same (correlation "
            f"{correlation[i, j]:.3f} over cells). Their effects cannot be told apart; leave one out."
        )
        found.add("warning", "collinear", text, f"{one.file}, {other.file}")
