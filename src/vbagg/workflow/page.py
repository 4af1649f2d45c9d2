"""The report of a run: maps for the viewer, plots, tables and words, gathered from the stages' folders."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import vbagg
from vbagg.doctor.text import fact_lines, verdict
from vbagg.doctor.words import between
from vbagg.geo import display, plots
from vbagg.geo.assumptions import assumed
from vbagg.geo.bounds import in_words
from vbagg.geo.files import plural
from vbagg.geo.observed_totals import MISSING, OBSERVED, STATE, SUPPRESSED, Totals, states_in
from vbagg.geo.told import COMPLETENESS, RELATIVE_SD, columns_told
from vbagg.geo.units import Units, likelihood_of, link_of, usual_per
from vbagg.report import (
    Code,
    Districts,
    Figure,
    Finding,
    MadeWith,
    MapLayer,
    Report,
    Section,
    Table,
    write_report,
)
from vbagg.workflow import pictures
from vbagg.workflow.folder import SETTINGS
from vbagg.workflow.odd_totals import OddTotals, are_differences, percentage
from vbagg.workflow.orientation import orientation_of
from vbagg.workflow.points_page import points_section
from vbagg.workflow.results import read_map, read_polygon_table, read_verdict, written_by
from vbagg.workflow.run import Run
from vbagg.workflow.settings import settings_text

if TYPE_CHECKING:
    import geopandas as gpd
    import pandas as pd

    from vbagg.doctor import Findings
    from vbagg.geo.prepared import Prepared

NOUNS = {"population": "People", "area": "Square kilometres", "expected": "Expected"}
"""What polygons have, at the start of a line."""
CITATION = (
    "Made with vbagg {version}.\n"
    "Method: H. C. L. Law, D. Sejdinovic, E. Cameron, T. C. D. Lucas, S. Flaxman, K. Battle, K. Fukumizu (2018)."
    " Variational Learning on Aggregate Outputs with Gaussian Processes."
    " Advances in Neural Information Processing Systems 31."
)


def write_pages(run: Run, folder: Path, findings: Findings | None) -> None:
    """Write the plots and one page per response, with what the check found of its inputs."""
    prepared = run.prepared()
    for response in prepared.responses:
        run.tell(f"{response}: plots")
        page = Page(run, prepared, response, folder, findings)
        run.tell(f"{response}: page")
        name = "report.html" if len(prepared.responses) == 1 else f"report_{run.file_name(response)}.html"
        write_report(folder / name, page.report())


@dataclass(frozen=True, eq=False)
class Page:
    """One response's page."""

    run: Run
    prepared: Prepared
    response: str
    folder: Path
    findings: Findings | None

    def report(self) -> Report:
        """All of it."""
        maps = self.run.maps(self.response)
        table = read_polygon_table(
            maps / "polygons.gpkg", self.prepared.polygons.id, self.prepared.exposure, columns_told(self.prepared.told)
        )
        with written_by("predict", maps / "rate_mean.tif"):
            frame = display.display_frame(maps / "rate_mean.tif")
        layers = list(self._layers(maps, table, frame))
        return Report(
            title=self.run.settings.report.title or f"{self._name}: rates on a fine scale",
            subtitle=f"{len(table)} polygons, {len(self.prepared.pixels):,} pixels",
            summary=self._summary(table),
            layers=layers,
            bounds=frame.bounds,
            districts=Districts(display.outlines(table, frame), [self._facts(row) for _, row in table.iterrows()]),
            orientation=orientation_of(self.run, maps, frame),
            sections=list(self._sections(maps, table)),
            citation=CITATION.format(version=vbagg.__version__),
            made_with=MadeWith(vbagg.__version__, time.strftime("%Y-%m-%d"), self.run.command),
            compare="observed",
        )

    @property
    def _name(self) -> str:
        """The response at the start of a line."""
        return self.response[:1].upper() + self.response[1:]

    @property
    def _level(self) -> str:
        return f"{100 * self.run.settings.maps.level:g}%"

    def _layers(self, maps: Path, table: gpd.GeoDataFrame, frame: display.Frame) -> Iterator[MapLayer]:
        level = self.run.settings.maps.level
        ends = [f"rate_q{q:.6g}" for q in ((1 - level) / 2, (1 + level) / 2)]
        mean, tags = read_map(maps / "rate_mean.tif", frame)
        units, log = tags["units"], pictures.wants_log(mean)
        yield MapLayer(
            "rate_mean",
            "Rate: mean",
            units,
            mean,
            log=log,
            description="Posterior mean.",
            lower=ends[0],
            upper=ends[1],
            interval=f"{self._level} interval",
        )
        observed = display.burnt(table, "observed_rate", frame)
        yield MapLayer(
            "observed",
            "Observed rate of polygons",
            units,
            observed,
            same_scale_as="rate_mean",
            description=f"One rate for each polygon: {self._total} over its {self._units.exposed}."
            f"{_drawn(self.prepared)}{_unknown(table)}",
        )
        if table["effect"].notna().any():
            yield self._effect_layer(table, frame)
        for path in self.run.map_files(self.response):
            name = path.stem
            if name == "rate_mean":
                continue
            values, tags = read_map(path, frame)
            label, look = pictures.layer_look(name, values)
            yield MapLayer(name, label, tags.get("units", ""), values, description=tags.get("title", ""), **look)

    def _effect_layer(self, table: gpd.GeoDataFrame, frame: display.Frame) -> MapLayer:
        difference = self._by_difference
        return MapLayer(
            "effect",
            "Totals against what is expected",
            "above" if difference else "times",
            display.burnt(table, "effect", frame),
            colours="vik",
            log=not difference,
            limits=plots.effect_limits(table["effect"].to_numpy(dtype=float), difference),
            description="One number for each polygon: how far its total is above what covariates and neighbours give.",
        )

    @property
    def _by_difference(self) -> bool:
        """Whether effects of polygons are differences, and not ratios."""
        return are_differences(self.run.settings)

    @property
    def _units(self) -> Units:
        settings = self.run.settings
        return Units(
            self.response,
            usual_per(self.prepared.exposure, settings.maps.per),
            self.prepared.exposure,
            settings.model.likelihood,
        )

    @property
    def _total(self) -> str:
        """What a rate is made of, in words."""
        told = self.prepared.told.completeness
        return "its total" if told is None else "its total, divided by the share that is reported,"

    def _facts(self, row: Any) -> dict[str, str]:
        exposure = self.prepared.exposure
        state = OBSERVED if np.isfinite(row["observed"]) else row[STATE]
        observed = f"{row['observed']:,.6g}"
        if state != OBSERVED:
            bounds = "" if state == MISSING else f": {in_words((row['observed_lower'], row['observed_upper']))}"
            observed = f"{state}{bounds}"
        rate = {f"Observed {self._units.rate}": f"{row['observed_rate']:.3g}"}
        return {
            "Polygon": str(row[self.prepared.polygons.id]),
            f"Observed {self.response}": observed,
            **self._reported_of(row),
            exposure.capitalize(): f"{row[exposure]:,.0f}{self._uncertain(row)}",
            **(rate if state == OBSERVED else {}),
            "Fitted total": _with_interval(row, "fitted", ",.0f"),
            **self._facts_of_effect(row),
        }

    def _reported(self, used: pd.DataFrame) -> str:
        """Completeness of polygons, from the least to the largest."""
        low, high = used[COMPLETENESS].min(), used[COMPLETENESS].max()
        return f"{100 * low:.3g}% to {100 * high:.3g}%"

    def _reported_of(self, row: Any) -> dict[str, str]:
        """How much of what occurred in a polygon is reported, if that was told."""
        known = self.prepared.told.completeness is not None and np.isfinite(row[COMPLETENESS])
        return {"Reported": f"{100 * row[COMPLETENESS]:.3g}%"} if known else {}

    def _uncertain(self, row: Any) -> str:
        """How far off the people of a polygon may be."""
        known = self.prepared.told.sd is not None and np.isfinite(row[RELATIVE_SD])
        return f" (off by {100 * row[RELATIVE_SD]:.3g}%)" if known else ""

    def _facts_of_effect(self, row: Any) -> dict[str, str]:
        """What is told of a polygon whose total is known, if only within bounds."""
        if not np.isfinite(row["effect"]):
            return {}
        name = "Above what is expected" if self._by_difference else "Times what is expected"
        odd = {"Stands out": f"chance {percentage(row['chance'])}"} if row["stands_out"] else {}
        others = {"Expected from the others": _with_interval(row, "from_others", ",.0f")}
        return {name: _with_interval(row, "effect", ".3g"), **others, **odd}

    def _summary(self, table: gpd.GeoDataFrame) -> list[tuple[str, str]]:
        per, exposure, trials = self._units.per, self.prepared.exposure, self.run.settings.model.trials
        used = table[table[exposure] > 0]  # the others are left out
        people, states = used[exposure].sum(), states_in(used)
        counts = {state: int((states == state).sum()) for state in (MISSING, SUPPRESSED)}
        ends = ("observed_lower", "observed_upper") if any(counts.values()) else ("observed", "observed")
        low, high = (used[end].sum() for end in ends)
        if trials is None:
            share = used[COMPLETENESS].fillna(1.0) if self.prepared.told.completeness else 1.0
            base = (share * used[exposure])[states != MISSING].sum()
        else:
            base = self.prepared.y(trials)[self.prepared.y(self.response).notna()].sum()
        title = "Relative risk" if self._units.is_relative else f"Rate per {per:g} {self._units.exposed}"
        facts = [
            (self._name, between((low, high), "{:,.0f}".format)),
            *((f"Polygons whose total is {state}", f"{count:,}") for state, count in counts.items() if count),
            *([("Of all that occurred, reported", self._reported(used))] if self.prepared.told.completeness else []),
            (NOUNS[exposure], f"{people:,.0f}"),
            *([] if trials is None else [("Trials", f"{base:,.0f}")]),
            (title, between((per * low / base, per * high / base), "{:.3g}".format)),
        ]
        validation = self.run.validation(self.response)
        if validation is not None:
            scores = validation.scores().loc["vbagg"]
            facts.append(("Unseen polygons inside their 95% interval", f"{100 * scores['coverage_95']:.0f}%"))
        return facts

    def _sections(self, maps: Path, table: gpd.GeoDataFrame) -> Iterator[Section]:
        drawn = pictures.draw_all(self.run, self.prepared, self.response, maps, table, self.folder)
        yield Section("Estimates", "estimates", [drawn[name] for name in pictures.MAPS if name in drawn])
        yield Section("Odd totals", "odd-totals", self._odd_blocks(table, drawn))
        log = pictures.wants_log(table["observed_rate"].to_numpy())
        on_points = points_section(self.run, self.prepared, self.response, maps, self._units, self.folder, log)
        yield from [] if on_points is None else [on_points]
        yield self._validation_section(drawn)
        yield Section("Covariates", "covariates", [drawn[name] for name in pictures.COVARIATES if name in drawn])
        yield Section("Data", "data", self._data_blocks())
        yield Section("Model and settings", "settings", self._model_blocks())

    def _odd_blocks(self, table: gpd.GeoDataFrame, drawn: dict[str, Figure]) -> list[Any]:
        level, maps = self.run.settings.maps.level, self.run.settings.maps
        told = OddTotals(table, self.prepared.polygons.id, self.response, level)
        may_match = self._units.has_counts and not (table["observed"] < 0).any()
        return [*told.blocks(may_match, maps.match_totals), *(drawn[name] for name in pictures.ODD if name in drawn)]

    def _validation_section(self, drawn: dict[str, Figure]) -> Section:
        validation = self.run.validation(self.response)
        fit = [drawn[name] for name in ("fitted",) if name in drawn]
        if validation is None:
            return Section("How far to trust it", "validation", ["Validation was left out.", *fit])
        scores = validation.scores().drop(columns=["bags"], errors="ignore")
        chosen = [name for name in ("nll", "crps", "mae", "rmse", "correlation", "coverage_95") if name in scores]
        table = Table(
            ["model", *chosen],
            [[str(name), *(float(value) for value in row)] for name, row in scores[chosen].iterrows()],
            "Scores of polygons that were left out. Lower is better, except for correlation and coverage.",
        )
        text = read_verdict(self.run.folder["validation"] / self.run.file_name(self.response))
        text += _unscored(self.prepared.polygons.totals(self.response))
        figures = [drawn[name] for name in pictures.VALIDATION if name in drawn]
        return Section("How far to trust it", "validation", [text, table, *figures, *fit])

    def _data_blocks(self) -> list[Any]:
        blocks: list[Any] = []
        found = self.findings
        if found is not None:
            facts = Table(["what", "found"], [[name, text] for name, text in fact_lines(found.facts)])
            blocks += [f"The check before modelling: {verdict(found)}", facts]
            blocks += [Finding(finding.level, finding.text) for finding in found.all]
        known = {finding.text for finding in found.all} if found else set()
        notes = [Finding("advice", note) for note in self.prepared.notes if note not in known]
        return [*blocks, "What was done to the data:" if notes else "The data were used as they are.", *notes]

    def _model_blocks(self) -> list[Any]:
        model = self.run.model(self.response)
        text = f"Likelihood {likelihood_of(model).name}, link {link_of(model).name}. {model.status_.message}"
        return [
            text,
            *assumed(self.prepared),
            _parameter_table(model.parameters_),
            Code(settings_text(self.run.settings, self.run.folder.path / SETTINGS)),
        ]


def _with_interval(row: Any, name: str, how: str) -> str:
    """A number of a row and its interval."""
    value, lower, upper = (format(row[f"{name}{end}"], how) for end in ("", "_lower", "_upper"))
    return f"{value} ({lower} to {upper})"


def _drawn(prepared: Prepared) -> str:
    """How polygons stand for catchments, if they do."""
    return " Catchments share cells; each is drawn where its share is the largest." if prepared.is_shared else ""


def _unknown(table: gpd.GeoDataFrame) -> str:
    """Where the map of observed rates has none."""
    known = set(states_in(table))
    states = [state for state in (MISSING, SUPPRESSED) if state in known]
    return f" None where the total is {' or '.join(states)}." if states else ""


def _unscored(totals: Totals) -> str:
    """Which polygons no fold has."""
    parts = [(totals.missing, "is missing"), (totals.suppressed, "is suppressed")]
    left = [f"{plural(which.sum(), 'polygon')} whose total {why}" for which, why in parts if which.any()]
    return f"\n{' and '.join(left)} could not be scored." if left else ""


def _parameter_table(parameters: pd.DataFrame) -> Table:
    """Learnt parameters; those that all columns of a part share name the columns only if they are few."""
    rows = []
    for row in parameters.to_dict("records"):
        columns = row["columns"].split(", ") if row["columns"] else []
        of = row["columns"] if len(columns) <= 2 else f"all {len(columns)} covariates"
        known = None if np.isnan(row["user_value"]) else row["user_value"]
        rows.append([row["part"], row["parameter"], of, row["value"], known])
    return Table(
        ["part", "parameter", "of", "value", "in the units of the data"],
        rows,
        "Parameters that were learnt. Values count covariates in standard deviations and places in a common scale;"
        " lengths of x and y are in kilometres in the last column.",
    )
