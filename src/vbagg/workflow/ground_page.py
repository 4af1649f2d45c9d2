"""The page of new ground: its maps, and how far they can be believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import vbagg
from vbagg import numerals
from vbagg.colours import ColourScale, wants_log
from vbagg.geo import display, plots
from vbagg.geo.ground_cells import BEYOND, PLACE
from vbagg.geo.ground_maps import is_every_cell
from vbagg.geo.map_words import caption_of, label_of, words_of
from vbagg.geo.units import Units, usual_per
from vbagg.language import written_in
from vbagg.report import (
    Code,
    Districts,
    Figure,
    Finding,
    Foreign,
    MadeWith,
    MapLayer,
    Report,
    Section,
    Table,
    write_report,
)
from vbagg.report.scales import scales_of
from vbagg.texts import Texts, texts_in
from vbagg.wording import own_word
from vbagg.workflow import pictures
from vbagg.workflow.folder import SETTINGS
from vbagg.workflow.report_page.orientation import is_oriented, orientation_of
from vbagg.workflow.report_page.page import CITATION
from vbagg.workflow.results import read_map, written_by
from vbagg.workflow.run import Run
from vbagg.workflow.settings import settings_text

if TYPE_CHECKING:
    import geopandas as gpd

    from vbagg.geo.beyond import Beyond
    from vbagg.geo.prepared import Prepared

DRAWN = ("rate_mean", "rate_interval_width", BEYOND, PLACE)
NEEDED = ("covered", "rate", "rate_lower", "rate_upper")


def write_ground_pages(run: Run, folder: Path) -> None:
    """Write one page per response."""
    assert run.source is not None
    prepared, responses = run.prepared(), run.source.prepared().responses
    for response in responses:
        run.tell(f"{response}: page")
        name = "report.html" if len(responses) == 1 else f"report_{run.file_name(response)}.html"
        with written_in(run.settings.report.language):
            write_report(folder / name, GroundPage(run, prepared, response, folder).report())


@dataclass(frozen=True, eq=False)
class GroundPage:
    """One response's page."""

    run: Run
    prepared: Prepared
    response: str
    folder: Path

    def report(self) -> Report:
        """All of it."""
        maps, beyond, table = self.run.maps(self.response), self.run.beyond(self.response), self._polygons()
        with written_by("predict", maps / "rate_mean.tif"):
            frame = display.display_frame(maps / "rate_mean.tif")
        name: str = self.run.settings.ground.name  # type: ignore[attr-defined]
        made = self.say.date(date.today())
        layers = list(self._layers(maps, frame))
        return Report(
            title=self.say("ground.title", response=own_word(self.response), name=name),
            subtitle=self.say("ground.subtitle", n=beyond.cells),
            summary=list(self._summary(beyond, table)),
            layers=layers,
            bounds=frame.bounds,
            districts=None if table is None else self._districts(table, frame),
            orientation=orientation_of(self.run, maps, frame),
            sections=list(self._sections(maps, beyond, scales_of(layers))),
            citation=CITATION.format(version=vbagg.__version__),
            made_with=MadeWith(vbagg.__version__, made, self.run.command),
            language=self.run.settings.report.language,
            compare=next((layer.name for layer in layers if layer.name in (BEYOND, PLACE)), None),
        )

    @property
    def say(self) -> Texts:
        """Texts in the language of the page."""
        return texts_in()

    @property
    def units(self) -> Units:
        """Those of rates and counts."""
        settings, exposure = self.run.settings, self.prepared.exposure
        return Units(self.response, usual_per(exposure, settings.maps.per), exposure, settings.model.likelihood)

    def _polygons(self) -> gpd.GeoDataFrame | None:
        """The table of polygons, if any were named."""
        import geopandas as gpd

        if is_every_cell(self.prepared):
            return None
        path = self.run.maps(self.response) / "polygons.gpkg"
        with written_by("predict", path):
            table = gpd.read_file(path)
            for name in (self.prepared.polygons.id, self.prepared.exposure, *NEEDED):
                if name not in table:
                    raise ValueError(f"it must have a column {name!r}")
        return table

    def _summary(self, beyond: Beyond, table: gpd.GeoDataFrame | None) -> Iterator[tuple[str, str]]:
        say = self.say
        people = beyond.weight if table is None else float(np.nansum(table[beyond.exposure]))
        yield say(f"figures.{beyond.exposure}"), numerals.count(people)
        if table is not None:
            yield say("ground.polygons"), numerals.count(len(table))
        if table is not None and "total" in table:
            yield say("table.total", response=self.response), numerals.count(np.nansum(table["total"]))
        for what, cells in ((say("ground.cells_beyond"), beyond.marked), (say("ground.places_unknown"), beyond.far)):
            if cells is not None:
                yield what, numerals.share(cells / beyond.cells)

    def _layers(self, maps: Path, frame: display.Frame) -> Iterator[MapLayer]:
        level = self.run.settings.maps.level
        ends = [f"rate_q{q:.6g}" for q in ((1 - level) / 2, (1 + level) / 2)]
        files = {path.stem: path for path in self.run.map_files(self.response)}
        for name in sorted(files, key=lambda name: (name != "rate_mean", name not in (BEYOND, PLACE))):
            values, tags = read_map(files[name], frame)
            label, look = pictures.layer_look(name, values)
            if name == "rate_mean":
                look = {"log": wants_log(values), "lower": ends[0], "upper": ends[1]}
                look["interval"] = self.say("layers.interval", level=numerals.level(level))
            title, units = words_of(tags, self.units)
            yield MapLayer(name, label, units, values, description=title, **look)

    def _districts(self, table: gpd.GeoDataFrame, frame: display.Frame) -> Districts:
        return Districts(display.outlines(table, frame), [self._facts(row) for _, row in table.iterrows()])

    def _facts(self, row: Any) -> dict[str, str]:
        say, exposure = self.say, self.prepared.exposure
        facts = {
            say("facts.district"): str(row[self.prepared.polygons.id]),
            say(f"figures.{exposure}"): numerals.count(row[exposure]),
        }
        for what, name, write in (
            (say("table.total", response=self.response), "total", numerals.count),
            (say("table.order_rate"), "rate", numerals.rate),
        ):
            if name in row:
                facts[what] = numerals.with_span(row[name], row[f"{name}_lower"], row[f"{name}_upper"], write)
        if "extrapolated" in row and np.isfinite(row["extrapolated"]):
            facts[say("ground.extrapolated")] = numerals.share(row["extrapolated"])
        return facts

    def _sections(self, maps: Path, beyond: Beyond, scales: Mapping[str, ColourScale]) -> Iterator[Section]:
        say, drawn = self.say, self._figures(maps, scales)
        warned = [Finding("warning" if beyond.marked or beyond.far else "advice", text) for text in beyond.sentences()]
        trust: list[Any] = [
            say("ground.about"),
            *warned,
            *(drawn[name] for name in (BEYOND, PLACE) if name in drawn),
            *_table(beyond),
        ]
        yield Section(say("sections.validation"), "trust", trust)
        yield Section(say("sections.estimates"), "estimates", [drawn[name] for name in DRAWN[:2] if name in drawn])
        notes = [Finding("advice", note) for note in self.prepared.notes]
        yield Section(say("sections.data"), "data", [say("sections.done"), Foreign(notes)] if notes else [])
        text = settings_text(self.run.settings, self.run.folder.path / SETTINGS)
        yield Section(say("sections.settings"), "settings", [Code(text)])

    def _figures(self, maps: Path, scales: Mapping[str, ColourScale]) -> dict[str, Figure]:
        into = self.folder / "plots" / self.run.file_name(self.response)
        into.mkdir(parents=True)
        polygons = None if is_every_cell(self.prepared) else self.prepared.polygons
        drawn, oriented = {}, is_oriented(self.run, maps)
        for name in DRAWN:
            raster = maps / f"{name}.tif"
            if raster.is_file():
                path = plots.plot_map(
                    raster,
                    into / f"{name}.png",
                    polygons=polygons,
                    scale=scales.get(name),
                    oriented=oriented,
                    units=self.units,
                )
                drawn[name] = Figure(path, caption_of(plots.tags_of(raster), self.units), label_of(name))
        return drawn


def _table(beyond: Beyond) -> list[Table]:
    """Covariates beside their ranges in the training data."""
    if not beyond.covariates:
        return []
    say = texts_in()
    columns = ("covariate", "trained_from", "to", "new_from", "to", "outside", "marks")
    rows = [
        [name, *one.trained, *one.new, 100 * one.outside, None if one.marks is None else 100 * one.marks]
        for name, one in ((name, beyond.covariates[name]) for name in beyond.table()["covariate"])
    ]
    return [
        Table(
            [say(f"ground.{name}") for name in columns],
            rows,
            say("ground.caption"),
        )
    ]
