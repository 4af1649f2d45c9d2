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
from vbagg.geo.map_words import QUANTILE, caption_of, label_of
from vbagg.geo.observed_totals import MISSING, SUPPRESSED, states_in
from vbagg.geo.ratio import RATIO
from vbagg.geo.relevance import partial_dependence, relevance
from vbagg.geo.told import COMPLETENESS
from vbagg.geo.units import Units, link_of, usual_per
from vbagg.numerals import level as in_percent
from vbagg.report import Figure
from vbagg.texts import texts_in
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
RELEVANCE_LEVEL = 0.9


def layer_look(name: str, values: np.ndarray) -> tuple[str, dict[str, Any]]:
    """Label and colours of a layer."""
    if name.startswith(QUANTILE):
        return label_of(name), {"same_scale_as": "rate_mean"}
    style = plots.STYLES.get(name, plots.PLAIN)
    look: dict[str, Any] = {"colours": style.colours, "log": style.may_be_log and wants_log(values)}
    if style.limits is not None:
        look["limits"] = style.limits
    if name == RATIO:
        look |= {"limits": plots.around_one(values.astype(np.float64)), "log": True}
    return label_of(name), look


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
    say, oriented = texts_in(), is_oriented(run, maps)
    drawn = {
        "input": Figure(
            plots.plot_input(table, into / "input.png", units, scale=scales.get("rate_mean"), oriented=oriented),
            say("captions.input"),
            say("captions.input_alt"),
        )
    }
    for name in MAPS[1:]:
        if (maps / f"{name}.tif").exists():
            raster, scale = maps / f"{name}.tif", scales.get(name)
            path = plots.plot_map(
                raster, into / f"{name}.png", polygons=prepared.polygons, scale=scale, oriented=oriented, units=units
            )
            drawn[name] = Figure(path, caption_of(plots.tags_of(raster), units), label_of(name))
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
            title=say("plots.fitted"),
            left_out=_not_observed(table),
        ),
        say("captions.fitted"),
        say("captions.fitted_alt"),
    )
    return drawn | _validation(run, response, units, into) | _covariates(run, prepared, response, units, into)


def _effects(table: gpd.GeoDataFrame, into: Path, difference: bool, oriented: bool) -> dict[str, Figure]:
    if table["effect"].isna().all():
        return {}
    say = texts_in()
    odd = " " + say("captions.odd") if table["stands_out"].any() else ""
    return {
        "effects": Figure(
            plots.plot_effects(table, into / "effects.png", difference=difference, oriented=oriented),
            say("captions.effects") + odd,
            say("captions.effects_alt"),
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
    say, rates = texts_in(), validation.rates()
    own = rates[rates["model"] == "vbagg"]
    predicted = diagnostics.plot_observed_predicted(
        own["y"],
        own["median"],
        own["q0.025"],
        own["q0.975"],
        into / "predicted.png",
        units=units.rate,
        level=0.95,
        title=say("plots.left_out"),
    )
    return inside_figures(say, validation, into) | {
        "predicted": Figure(predicted, say("captions.predicted"), say("captions.predicted_alt")),
        "coverage": Figure(
            diagnostics.plot_coverage(validation, into / "coverage.png"),
            say("captions.coverage"),
            say("captions.coverage_alt"),
        ),
        "pit": Figure(
            diagnostics.plot_pit(validation, into / "pit.png"),
            say("captions.pit"),
            say("captions.pit_alt"),
        ),
    }


def _covariates(run: Run, prepared: Prepared, response: str, units: Units, into: Path) -> Figures:
    if not prepared.covariates:
        return {}
    model, level = run.model(response), run.settings.maps.level
    run.tell(f"{response}: relevance of covariates")
    labels = {name: prepared.label(name) for name in prepared.covariates}
    labels["location"] = texts_in()("plots.location")
    shares = diagnostics.plot_relevance(
        relevance(model, prepared, level=RELEVANCE_LEVEL),
        into / "relevance.png",
        scale=link_of(model).scale_name,
        labels=labels,
    )
    curves = {}
    for at, name in enumerate(prepared.covariates):
        run.tell(f"{response}: dependence on {name}", at / len(prepared.covariates))
        curves[name] = partial_dependence(model, prepared, name, level=level, per=units.per)
    say = texts_in()
    told = Figure(shares, say("captions.relevance", level=in_percent(RELEVANCE_LEVEL)), say("plots.relevance"))
    return {RELEVANCE: told} | _curves(curves, prepared, units, into, level)


def _curves(curves: Mapping[str, pd.DataFrame], prepared: Prepared, units: Units, into: Path, level: float) -> Figures:
    """A small picture of each covariate, on one scale of rates."""
    top, drawn = diagnostics.highest_rate(curves), {}
    for file, (name, curve) in zip(file_names(list(curves)), curves.items(), strict=True):
        path = into / f"{DEPENDENCE}_{file}.png"
        diagnostics.plot_dependence(curve, name, prepared, path, units=units.rate, top=top)
        about = prepared.described.get(name, Described()).titled(name)
        drawn[f"{DEPENDENCE} {name}"] = Figure(
            path, "", texts_in()("captions.dependence_alt", covariate=about), small=True
        )
    return drawn
