"""Plots of a run, with captions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.geo import diagnostics, plots
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.geo.ratio import RATIO
from vbagg.geo.relevance import partial_dependence, relevance
from vbagg.geo.told import COMPLETENESS
from vbagg.geo.units import Units, link_of, usual_per
from vbagg.report import Figure
from vbagg.workflow.odd_totals import are_differences
from vbagg.workflow.run import Run

if TYPE_CHECKING:
    import geopandas as gpd

    from vbagg.geo.prepared import Prepared

MAPS = ("input", "rate_mean", "rate_sd", "exceedance")
VALIDATION = ("predicted", "calibration")
ODD = ("effects",)
COVARIATES = ("relevance", "dependence")
LOG_SPREAD = 20.0
SHORT = {
    "rate_sd": "Rate: standard deviation",
    "rate_interval_width": "Rate: width of the interval",
    "exceedance": "Probability of exceedance",
    "information": "Inside polygons: how much is known",
    "expected_count": "Expected count",
    "expected_count_matched": "Expected count, matched to totals",
    "population": "Population",
    "area": "Area",
    "expected": "Expected by the exposure",
    "extrapolation": "Extrapolation by covariates",
    "extrapolation_place": "Extrapolation: the place",
    RATIO: "Rate: with points over without",
}


def wants_log(values: np.ndarray) -> bool:
    """Whether positive values, extreme ones apart, spread so far that colours should follow their logarithm.

    Where some are negative they have none.
    """
    positive = values[values > 0]
    if positive.size < 2 or (values < 0).any():
        return False
    low, high = np.quantile(positive, [0.02, 0.98])
    return bool(high > LOG_SPREAD * low)


def layer_look(name: str, values: np.ndarray) -> tuple[str, dict[str, Any]]:
    """Label and colours of a layer."""
    if name.startswith("rate_q"):
        return f"Rate: quantile {name.removeprefix('rate_q')}", {"same_scale_as": "rate_mean"}
    style = plots.STYLES.get(name, plots.Style(name))
    look: dict[str, Any] = {"colours": style.colours, "log": style.may_be_log and wants_log(values)}
    if style.limits is not None:
        look["limits"] = style.limits
    if name == RATIO:
        look |= {"limits": plots.around_one(values.astype(np.float64)), "log": True}
    return SHORT.get(name, name), look


def draw_all(
    run: Run, prepared: Prepared, response: str, maps: Path, table: gpd.GeoDataFrame, folder: Path
) -> dict[str, Figure]:
    """Draw everything into the folder `plots`; figures with captions by name."""
    options = run.settings.maps
    units = Units(response, usual_per(prepared.exposure, options.per), prepared.exposure, run.settings.model.likelihood)
    into = folder / "plots" / run.file_name(response)
    into.mkdir(parents=True)
    log = wants_log(table["observed_rate"].to_numpy())
    drawn = {
        "input": Figure(
            plots.plot_input(table, into / "input.png", units, log=log),
            "What was observed: one rate for each polygon.",
            "Map of observed rates",
        )
    }
    for name in MAPS[1:]:
        if (maps / f"{name}.tif").exists():
            path = plots.plot_map(maps / f"{name}.tif", into / f"{name}.png", polygons=prepared.polygons, log=log)
            drawn[name] = Figure(path, f"{plots.read_picture(maps / f'{name}.tif').tags['title'].capitalize()}.", name)
    drawn |= _effects(table, into, are_differences(run.settings))
    rate, share = table["rate"] / table["fitted"], table.get(COMPLETENESS, 1.0) if prepared.told.completeness else 1.0
    drawn["fitted"] = Figure(
        diagnostics.plot_observed_predicted(
            table["observed_rate"],
            table["rate"],
            table["predicted_lower"] * rate / share,
            table["predicted_upper"] * rate / share,
            into / "fitted.png",
            units=units.rate,
            level=options.level,
            title="Observed and fitted rates",
            left_out=_not_observed(table),
        ),
        "Polygons that the model was fitted to, with intervals of a new count.",
        "Scatter plot of observed and fitted rates",
    )
    return drawn | _validation(run, response, units, into) | _covariates(run, prepared, response, units, into)


def _effects(table: gpd.GeoDataFrame, into: Path, difference: bool) -> dict[str, Figure]:
    if table["effect"].isna().all():
        return {}
    odd = " Polygons that stand out have a heavy outline." if table["stands_out"].any() else ""
    return {
        "effects": Figure(
            plots.plot_effects(table, into / "effects.png", difference=difference),
            "How far totals are above or below what covariates and neighbours give." + odd,
            "Map of the effects of polygons",
        )
    }


def _not_observed(table: gpd.GeoDataFrame) -> dict[str, int]:
    """Number of polygons by what is known of their totals, where that is not all."""
    states = states_in(table)
    return {state: int(np.sum(states == state)) for state in (MISSING, SUPPRESSED) if (states == state).any()}


def _validation(run: Run, response: str, units: Units, into: Path) -> dict[str, Figure]:
    validation = run.validation(response)
    if validation is None:
        return {}
    rates = validation.rates()
    own = rates[rates["model"] == "vbagg"]
    predicted = diagnostics.plot_observed_predicted(
        own["y"],
        own["median"],
        own["q0.025"],
        own["q0.975"],
        into / "predicted.png",
        units=units.rate,
        level=0.95,
        title="Observed and predicted rates of polygons left out",
    )
    return {
        "predicted": Figure(predicted, "Polygons that were left out of the fit.", "Scatter plot"),
        "calibration": Figure(
            diagnostics.plot_calibration(validation, into / "calibration.png"),
            "Are intervals as wide as they should be? Points in the grey band are what chance allows.",
            "Coverage of intervals and histogram of the probability integral transform",
        ),
    }


def _covariates(run: Run, prepared: Prepared, response: str, units: Units, into: Path) -> dict[str, Figure]:
    if not prepared.covariates:
        return {}
    model = run.model(response)
    run.tell(f"{response}: relevance of covariates")
    scale = link_of(model).scale_name
    shares = diagnostics.plot_relevance(relevance(model, prepared), into / "relevance.png", scale=scale)
    curves = {}
    for at, name in enumerate(prepared.covariates):
        run.tell(f"{response}: dependence on {name}", at / len(prepared.covariates))
        curves[name] = partial_dependence(model, prepared, name, level=run.settings.maps.level, per=units.per)
    dependence = diagnostics.plot_partial_dependence(
        curves, prepared, into / "dependence.png", units=units.rate, level=run.settings.maps.level
    )
    return {
        "relevance": Figure(shares, "Share of the variation of rates that goes through each covariate.", "Bar chart"),
        "dependence": Figure(
            dependence,
            "Mean rate if a covariate had the same value everywhere, all else as it is, with its interval.",
            "Curves of the rate against each covariate",
        ),
    }
