"""What was told of reports and of people: whether it goes with the model, and can be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vbagg.doctor.findings import Gathered
from vbagg.doctor.overlaid import Overlaid
from vbagg.doctor.words import number
from vbagg.geo.assumptions import TINY, assumptions, gaps_of
from vbagg.geo.files import some
from vbagg.geo.layout import SD_FILE
from vbagg.geo.people_errors import PopulationSd, flaw_of
from vbagg.likelihoods import get_likelihood
from vbagg.numerals import ratio

if TYPE_CHECKING:
    from vbagg.workflow.settings import Data, Model

LITTLE = 0.1
"""Completeness from which down totals say little."""


def check_told_of_model(data: Data, model: Model, found: Gathered) -> None:
    """Neither goes with counts among trials."""
    likelihood = get_likelihood(model.likelihood)
    if not likelihood.needs_trials:
        return
    for word in ("completeness_column", "population_sd", "population_sd_column"):
        if getattr(data, word) is not None:
            text = (
                f"`--{word.replace('_', '-')}` does not go with the likelihood {likelihood.name!r}, whose totals are "
                "of a known number of trials. Leave it out."
            )
            found.add("error", "told", text, "settings")


def check_told(laid: Overlaid, doubt: PopulationSd, found: Gathered) -> None:
    """Look at shares that are reported, and at standard deviations of people."""
    told, errors = laid.told, laid.layout.errors
    flaw = None if errors is None else flaw_of(errors, laid.labels)
    for where, text in assumptions(laid.polygons, told, doubt, errors if flaw is None else None):
        found.add("advice", "assumed", text, where)
    if told.completeness is not None:
        _check_completeness(laid, told.completeness, found)
    if errors is None:
        return
    file = errors.alignment.layer.file
    if flaw is not None:
        found.add("error", SD_FILE, flaw[0], file, flaw[1])
        return
    inhabited = errors.people > 0
    if inhabited.any() and np.median(errors.relative[inhabited]) < TINY:
        usual = 100 * np.median(errors.relative[inhabited])
        text = (
            f"{file}: standard deviations are {ratio(usual)}% of the people in a usual polygon, which changes next to "
            "nothing. Give them as people in each cell, not relative to these"
        )
        text += ", or let errors go together: `--population-errors shared`." if errors.errors != "shared" else "."
        found.add("warning", "small-population-sd", text, file)
    for note in gaps_of(laid.polygons, errors):
        found.add("warning", "missing-population-sd", note, file)


def _check_completeness(laid: Overlaid, column: str, found: Gathered) -> None:
    polygons, shares = laid.polygons, laid.polygons.frame[column].to_numpy()
    where = f"{polygons.file_of(column)}, column {column}"
    few = np.flatnonzero(shares < LITTLE)
    if few.size:
        names = laid.labels[few].tolist()
        text = (
            f"{polygons.file_of(column)}: less than {100 * LITTLE:g}% of what occurred is reported in "
            f"{number(names, 'polygon', 'polygons')} ({some(names)}), whose totals say little, and which count on that "
            "share to be right. If it is a guess, empty the totals."
        )
        found.add("warning", "little-reported", text, where, names)
