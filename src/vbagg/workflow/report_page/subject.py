"""What a page is about: one response of a run, and all that the stages say of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vbagg import numerals
from vbagg.geo import display
from vbagg.geo.names import Names, names_of
from vbagg.geo.told import columns_told
from vbagg.geo.units import Units, usual_per
from vbagg.texts import Texts, texts_in
from vbagg.wording import own_word
from vbagg.workflow.odd_totals import are_differences
from vbagg.workflow.results import read_polygon_table, written_by
from vbagg.workflow.run import Run

if TYPE_CHECKING:
    import geopandas as gpd

    from vbagg.doctor import Findings
    from vbagg.geo.prepared import Prepared


@dataclass(frozen=True, eq=False)
class Subject:
    """One response of a run.

    Attributes
    ----------
    run, prepared, response
        What was done, to which data.
    folder
        Where the page and its plots go.
    findings
        What the check found of the inputs, if it was done.
    """

    run: Run
    prepared: Prepared
    response: str
    folder: Path
    findings: Findings | None = None

    @cached_property
    def table(self) -> gpd.GeoDataFrame:
        """Polygons with what was observed and fitted."""
        return read_polygon_table(
            self.maps / "polygons.gpkg",
            self.prepared.polygons.id,
            self.prepared.exposure,
            columns_told(self.prepared.told),
        )

    @cached_property
    def names(self) -> Names:
        """What polygons are called."""
        return names_of(self.prepared.polygons, self.run.settings.data.name)

    @cached_property
    def named(self) -> gpd.GeoDataFrame:
        """The table with names in the place of ids."""
        return self.table.assign(**{self.prepared.polygons.id: self.names.texts})

    @cached_property
    def frame(self) -> display.Frame:
        """The grid in degrees that maps are shown on."""
        path = self.maps / "rate_mean.tif"
        with written_by("predict", path):
            return display.display_frame(path)

    @property
    def maps(self) -> Path:
        """The folder of its maps."""
        return self.run.maps(self.response)

    @property
    def say(self) -> Texts:
        """Texts in the language of the page; facilities that share cells have catchments, and no districts."""
        say = texts_in()
        return _of_catchments(say.language) if self.prepared.is_shared else say

    @property
    def name(self) -> str:
        """The response at the start of a line."""
        return own_word(self.response)

    @property
    def level(self) -> str:
        """Of intervals, as a percentage."""
        return numerals.level(self.run.settings.maps.level)

    @property
    def by_difference(self) -> bool:
        """Whether effects of polygons are differences, and not ratios."""
        return are_differences(self.run.settings)

    @property
    def units(self) -> Units:
        """Those of rates and counts."""
        settings = self.run.settings
        return Units(
            self.response,
            usual_per(self.prepared.exposure, settings.maps.per),
            self.prepared.exposure,
            settings.model.likelihood,
        )


@cache
def _of_catchments(language: str) -> Texts:
    say = texts_in(language)
    words = {
        say("catchments.district"): say("catchments.one"),
        say("catchments.District"): say("catchments.first"),
    }
    return say.with_words(words)
