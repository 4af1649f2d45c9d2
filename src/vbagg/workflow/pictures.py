"""Plots of a run, with captions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.colours import ColourScale, wants_log
from vbagg.files import file_names
from vbagg.geo import diagnostics, plots
from vbagg.geo.described import Described
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.geo.ratio import RATIO
from vbagg.geo.relevance import partial_dependence, relevance
from vbagg.geo.told import COMPLETENESS
from vbagg.geo.units import Units, link_of, usual_per
from vbagg.report import Figure
from vbagg.report.texts import texts_in
from vbagg.wording import sentence
from vbagg.workflow.odd_totals import are_differences
from vbagg.workflow.report_page.inside import inside_figures
from vbagg.workflow.report_page.orientation import is_oriented
from vbagg.workflow.run import Run

if TYPE_CHECKING:
    import geopandas as gpd
    import pandas as pd

    from vbagg.geo.prepared import Prepared

Figures = dict[str, Figure]
"""Pictures with captions, by name."""
MAPS = ("input", "rate_mean", "rate_sd", "exceedance")
INSIDE = ("inside_skill", "inside_coverage")
VALIDATION = ("predicted", "coverage", "pit")
ODD = ("effects",)
RELEVANCE, DEPENDENCE = "relevance", "dependence"
RELEVANCE_CAPTION = (
    "Share of the variation of rates that goes through each covariate: median, and a line for the 90% interval. Shares"
    " need not add up to 100%."
)
SHORT = {
    "rate_mean": "Rate: mean",
    "rate_sd": "Rate: standard deviation",
    "rate_interval_width": "Rate: width of the interval",
    "exceedance": "Probability of exceedance",
    "expected_count": "Expected count",
    "expected_count_matched": "Expected count, matched to totals",
    "population": "Population",
    "area": "Area",
    "expected": "Expected by the exposure",
    "extrapolation": "Extrapolation by covariates",
    "extrapolation_place": "Extrapolation: the place",
    RATIO: "Rate: with points over without",
}


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
    run: Run,
    prepared: Prepared,
    response: str,
    maps: Path,
    table: gpd.GeoDataFrame,
    folder: Path,
    scales: Mapping[str, ColourScale],
) -> Figures:
    """Draw everything into the folder `plots`, in the colours of the viewer; figures with captions by name."""
    options = run.settings.maps
    units = Units(response, usual_per(prepared.exposure, options.per), prepared.exposure, run.settings.model.likelihood)
    into = folder / "plots" / run.file_name(response)
    into.mkdir(parents=True)
    oriented = is_oriented(run, maps)
    drawn = {
        "input": Figure(
            plots.plot_input(table, into / "input.png", units, scale=scales.get("rate_mean"), oriented=oriented),
            "What was observed: one rate for each polygon.",
            "Map of observed rates",
        )
    }
    for name in MAPS[1:]:
        if (maps / f"{name}.tif").exists():
            raster, scale = maps / f"{name}.tif", scales.get(name)
            path = plots.plot_map(
                raster, into / f"{name}.png", polygons=prepared.polygons, scale=scale, oriented=oriented
            )
            drawn[name] = Figure(path, f"{sentence(plots.tags_of(raster)['title'])}.", SHORT.get(name, name))
    drawn |= _effects(table, into, are_differences(run.settings), oriented)
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


def _effects(table: gpd.GeoDataFrame, into: Path, difference: bool, oriented: bool) -> dict[str, Figure]:
    if table["effect"].isna().all():
        return {}
    odd = " Polygons that stand out have a heavy outline." if table["stands_out"].any() else ""
    return {
        "effects": Figure(
            plots.plot_effects(table, into / "effects.png", difference=difference, oriented=oriented),
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
    return inside_figures(texts_in(), validation, into) | {
        "predicted": Figure(predicted, "Polygons that were left out of the fit.", "Scatter plot"),
        "coverage": Figure(
            diagnostics.plot_coverage(validation, into / "coverage.png"),
            "Are intervals as wide as they should be? Points in the grey band are what chance allows.",
            "Coverage of intervals at all levels",
        ),
        "pit": Figure(
            diagnostics.plot_pit(validation, into / "pit.png"),
            "The probability integral transform: bars of equal height mean that predictions are neither too high nor"
            " too low, and neither too sure nor too cautious.",
            "Histogram of the probability integral transform",
        ),
    }


def _covariates(run: Run, prepared: Prepared, response: str, units: Units, into: Path) -> Figures:
    if not prepared.covariates:
        return {}
    model, level = run.model(response), run.settings.maps.level
    run.tell(f"{response}: relevance of covariates")
    labels = {name: prepared.label(name) for name in prepared.covariates}
    shares = diagnostics.plot_relevance(
        relevance(model, prepared), into / "relevance.png", scale=link_of(model).scale_name, labels=labels
    )
    curves = {}
    for at, name in enumerate(prepared.covariates):
        run.tell(f"{response}: dependence on {name}", at / len(prepared.covariates))
        curves[name] = partial_dependence(model, prepared, name, level=level, per=units.per)
    return {RELEVANCE: Figure(shares, RELEVANCE_CAPTION, "Relevance of covariates")} | _curves(
        curves, prepared, units, into, level
    )


def _curves(curves: Mapping[str, pd.DataFrame], prepared: Prepared, units: Units, into: Path, level: float) -> Figures:
    """A small picture of each covariate, on one scale of rates."""
    top, drawn = diagnostics.highest_rate(curves), {}
    for file, (name, curve) in zip(file_names(list(curves)), curves.items(), strict=True):
        path = into / f"{DEPENDENCE}_{file}.png"
        diagnostics.plot_dependence(curve, name, prepared, path, units=units.rate, top=top)
        about = prepared.described.get(name, Described()).titled(name)
        drawn[f"{DEPENDENCE} {name}"] = Figure(path, "", f"The rate against {about}", small=True)
    return drawn
