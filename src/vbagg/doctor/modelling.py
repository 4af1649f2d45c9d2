"""Settings of the model: whether they go together, and with the data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from vbagg.doctor.findings import Gathered
from vbagg.doctor.overlaid import Overlaid
from vbagg.errors import DataWarning, did_you_mean
from vbagg.geo.exposure import Exposure
from vbagg.geo.polygons import Polygons
from vbagg.likelihoods import get_likelihood

if TYPE_CHECKING:
    from vbagg.workflow.settings import Model

SETTINGS = "settings"


def check_model(model: Model, negative: bool, found: Gathered) -> None:
    """Look at the settings alone; totals may be `negative`."""
    likelihood = get_likelihood(model.likelihood)
    if negative and not likelihood.may_be_negative:
        text = f"`negative` goes with the likelihood 'normal'; got it with {likelihood.name!r}. Leave out one of them."
        found.add("error", "negative", text, SETTINGS)
    if (link := model.link) is not None:
        found.attempt("link", SETTINGS, lambda: likelihood.check_link(link))
    if likelihood.needs_trials and model.trials is None:
        text = (
            f"The likelihood {likelihood.name!r} needs the number of trials. Name the column with them by `--trials`."
        )
        found.add("error", "trials", text, SETTINGS)
    if not likelihood.needs_trials and model.trials is not None:
        text = f"`trials` goes with the likelihood 'binomial'; got it with {likelihood.name!r}. Leave out one of them."
        found.add("error", "trials", text, SETTINGS)


def check_exposure(model: Model, exposure: Exposure, found: Gathered) -> None:
    """Expected counts go with counts."""
    likelihood = get_likelihood(model.likelihood)
    if exposure.kind == "expected" and (likelihood.needs_trials or not likelihood.counts):
        text = (
            f"`exposure_column` goes with counts that are not of trials; got it with {likelihood.name!r}. Choose "
            "another likelihood, or leave it out."
        )
        found.add("error", "exposure", text, SETTINGS)


def check_trials(polygons: Polygons, responses: tuple[str, ...], model: Model, found: Gathered) -> bool:
    """Look at the column of trials; whether it can be used."""
    likelihood = get_likelihood(model.likelihood)
    if not likelihood.needs_trials or model.trials is None:
        return False
    frame, name, where = polygons.frame, model.trials, f"{polygons.file_of(model.trials)}, column {model.trials}"
    if name not in frame or name == "geometry":
        known = [column for column in frame.columns if column != "geometry"]
        text = f"{polygons.path} has no column {name!r} for the trials{did_you_mean(name, known)}"
        found.add("error", "trials", text, where)
        return False
    values = frame[name]
    if not is_numeric_dtype(values) or is_bool_dtype(values) or not np.isfinite(values).all():
        text = f"{polygons.path_of(name)}: the trials {name!r} must be a number for every polygon. Correct the column."
        found.add("error", "trials", text, where)
        return False
    trials, usable = values.to_numpy(dtype=np.float64), True
    for response in responses:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                y, labels = polygons.totals(response).least, polygons.labels
                seen = np.isfinite(y)
                likelihood.check_outputs(y[seen], labels[seen].tolist(), trials[seen])
        except ValueError as error:
            text = f"{polygons.path_of(name)}: {error} Correct the columns {response!r} or {name!r}."
            found.add("error", "trials", text, where)
            usable = False
    return usable


def check_landmarks(laid: Overlaid, model: Model, found: Gathered) -> None:
    """A set of landmarks cannot have more of them than there are distinct rows to choose from."""
    if model.landmarks is None:
        return
    rows = {"places": laid.n_inhabited}
    if laid.rasters:
        rows["values of the covariates"] = laid.distinct_values(model.landmarks)
    for what, distinct in rows.items():
        if model.landmarks > distinct:
            text = (
                f"`landmarks` must not exceed the {distinct:,} distinct {what}; got {model.landmarks:,}. Ask for fewer."
            )
            found.add("error", "landmarks", text, SETTINGS)
