"""A run and its stages: each is skipped where its results are there for the same inputs."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import vbagg
from vbagg.errors import did_you_mean
from vbagg.files import file_names
from vbagg.workflow.folder import SETTINGS, RunFolder
from vbagg.workflow.noted import NotedSettings
from vbagg.workflow.record import plain
from vbagg.workflow.results import (
    ABOVE,
    read_findings,
    read_judgement,
    read_people_above,
    read_recovery,
    read_validation,
    written_by,
)
from vbagg.workflow.settings import Settings, setting, settings_text, write_settings

if TYPE_CHECKING:
    import geopandas as gpd
    import pandas as pd
    import xarray

    from vbagg.doctor import Findings
    from vbagg.geo.beyond import Beyond
    from vbagg.geo.prepare import Prepared
    from vbagg.models.vbagg import VBAgg
    from vbagg.validate import Recovery, Validation, Verdict
    from vbagg.workflow.shared import SharedLayout

LONGEST_SHOWN = 160
WITHOUT_POINTS = "without_points"
"""Folder of what is made without survey points, beside what is made with them."""
Tell = Callable[..., None]
"""Takes what is being done in a few words and, if known, the share of the stage that is done."""


@dataclass(frozen=True)
class Run:
    """Settings, the folder they are carried out in, whom to tell of progress, and what stages hand on to each other."""

    settings: Settings
    folder: RunFolder
    tell: Tell = lambda text, share=None: None
    command: str = ""
    step: Callable[[str], None] = lambda text: None
    """Takes a part of a stage that is finished, in words."""
    shared: SharedLayout | None = None
    client: Any = None
    """Of a Dask cluster, whose workers prepare, fit, map and validate; None for this process."""
    source: Run | None = None
    """The run whose models are used on new ground; None where they are its own."""

    def findings(self) -> Findings | None:
        """What the check found, None if it was left out."""
        return read_findings(self.folder["check"])

    def prepared(self) -> Prepared:
        """Polygons, pixels and aligned layers."""
        from vbagg.geo.prepare import Prepared

        prepared = Prepared.load(self.folder["prepared"])
        if self.source is None and prepared.responses != self.settings.data.response:
            raise ValueError(
                f"{self.folder['prepared']} must hold the responses {self.settings.data.response}; it holds "
                f"{prepared.responses}. Prepare it again: `vbagg prepare --out {self.folder.path}`."
            )
        return prepared

    def model(self, response: str | None = None) -> VBAgg:
        """The model of a response, by default the first."""
        folder = (self.source or self).folder
        return vbagg.load(folder["models"] / f"{self.file_name(response)}.vbagg")

    def model_without_points(self, response: str | None = None) -> VBAgg:
        """The same without survey points, of a run that has some."""
        path = self.folder["models"] / WITHOUT_POINTS / f"{self.file_name(response)}.vbagg"
        if not path.is_file():
            raise ValueError(f"{path} is not there, since the run has no points. Name some by `--points`.")
        return vbagg.load(path)

    def maps(self, response: str | None = None) -> Path:
        """Folder with the maps and tables of a response."""
        return self.folder["maps"] / self.file_name(response)

    def map_files(self, response: str | None = None) -> list[Path]:
        """The maps of a response that the run wrote, whatever else may lie in their folder."""
        record, name = self.folder.record("maps"), self.file_name(response)
        files = sorted(record.files if record is not None else ())
        return [self.folder["maps"] / file for file in files if re.fullmatch(rf"{re.escape(name)}/[^/]+\.tif", file)]

    def to_xarray(self, response: str | None = None) -> xarray.Dataset:
        """The maps of a response by name, with their units, titles and coordinate reference system."""
        from vbagg.workflow.opened import opened_maps

        return opened_maps(self.map_files(response))

    def to_geopandas(self, response: str | None = None, name: str = "polygons") -> gpd.GeoDataFrame:
        """Polygons of the fit with totals and rates, or others by the name of the file that was given with `to`."""
        import geopandas as gpd

        return gpd.read_file(self.maps(response) / f"{name}.gpkg")

    def people_above(self, response: str | None = None) -> pd.DataFrame:
        """How many people live where the rate is above each of many thresholds; see `vbagg.geo.people_above`."""
        table = read_people_above(self.maps(response))
        if table is None:
            raise ValueError(
                f"{self.maps(response) / ABOVE} is not there: maps of new ground have none, nor those of earlier "
                f"versions. Map again: `vbagg predict --force --out {self.folder.path}`."
            )
        return table

    def beyond(self, response: str | None = None) -> Beyond:
        """How much of new ground lies beyond what the training data cover: its `sentences()` and its `table()`."""
        from vbagg.geo.beyond import Beyond
        from vbagg.geo.ground_maps import SUMMARY

        path = self.maps(response) / SUMMARY
        if not path.is_file():
            raise ValueError(f"{self.folder.path} is no new ground; `vbagg.geo.predict` gives such a run.")
        with written_by("predict", path):
            return Beyond.from_json(path.read_text(encoding="utf-8"))

    def validation(self, response: str | None = None) -> Validation | None:
        """How polygons that were left out are predicted, None if validation was left out."""
        return read_validation(self.folder["validation"] / self.file_name(response))

    def verdict(self, response: str | None = None) -> Verdict | None:
        """Whether rates inside polygons are worth showing, in a word with reasons; None if validation was left out."""
        return read_judgement(self.folder["validation"] / self.file_name(response))

    def recovery(self, response: str | None = None) -> Recovery | None:
        """What the model recovers of rates inside polygons where it is right, None if that was left out."""
        return read_recovery(self.folder["validation"] / self.file_name(response))

    def pages(self) -> list[Path]:
        """The report, a page for each response."""
        return sorted(self.folder["report"].glob("*.html"))

    def file_name(self, response: str | None = None) -> str:
        """What files and folders of a response are called, by default of the first."""
        responses = self.settings.data.response
        if response is not None and response not in responses:
            raise ValueError(f"The run has no response {response!r}{did_you_mean(response, responses)}")
        return file_names(responses)[0 if response is None else responses.index(response)]


@dataclass(frozen=True)
class Stage:
    """One stage: what it does, and which stages it rests on.

    What else its results depend on is what it reads of the settings, which is noted while it works.

    Attributes
    ----------
    name
        Its folder.
    verb
        The command for it alone.
    work
        Takes the run and the folder to write into.
    after
        Stages that must be finished.
    uses
        Stages whose results are used where they are there.
    """

    name: str
    verb: str
    work: Callable[[Run, Path], None]
    after: tuple[Stage, ...] = ()
    uses: tuple[Stage, ...] = ()


def carry_out(run: Run, stage: Stage, force: bool = False) -> bool:
    """Carry out a stage unless its results are there for the same inputs; whether it was needed."""
    reason = "asked for" if force else outdated(run, stage)
    if reason is None or force:
        shutil.rmtree(run.folder.kept(stage.name), ignore_errors=True)
    if reason is None:
        run.folder.log(f"{stage.name}: nothing changed")
        _keep_settings(run)
        return False
    began = time.perf_counter()
    run.folder.log(f"{stage.name}: begins, since {reason}")
    try:
        with run.folder.writing(stage.name) as unfinished:
            noted = NotedSettings(run.settings)
            unfinished.after, unfinished.settings = _foundations(run, stage), noted.read
            # stands for the settings in all that a stage reads of them
            stage.work(replace(run, settings=cast(Settings, noted)), unfinished.folder)
    except BaseException as error:
        with suppress(OSError):
            run.folder.log(f"{stage.name}: stopped, {type(error).__name__}: {error}")
        if not run.folder.has_results:
            run.folder.forget()
        raise
    _keep_settings(run)
    run.folder.log(f"{stage.name}: done in {time.perf_counter() - began:.1f} s")
    return True


def _keep_settings(run: Run) -> None:
    """Write the settings into the folder unless they are there."""
    path = run.folder.path / SETTINGS
    if not path.is_file() or path.read_bytes() != settings_text(run.settings, path).encode():
        write_settings(run.settings, path)


def require(run: Run, stage: Stage) -> None:
    """Refuse to begin a stage whose forerunners are missing, damaged or older than what they rest on."""
    for earlier in stage.after:
        reason = outdated(run, earlier)
        if reason is not None:
            raise ValueError(
                f"{run.folder.path} has no {earlier.name} that can be used: {reason}."
                f" Run `vbagg {earlier.verb} --out {run.folder.path}` first, or `vbagg run` for all stages."
            )


def outdated(run: Run, stage: Stage) -> str | None:
    """Why the results of a stage cannot be used as they are, in words; None if they can."""
    record = run.folder.record(stage.name)
    if record is None:
        return "it was not finished" if run.folder[stage.name].exists() else "there is none yet"
    if record.version != vbagg.__version__:
        return f"it was made by vbagg {record.version}, and this is {vbagg.__version__}"
    for name, value in record.settings.items():
        now = plain(setting(run.settings, name))
        if now != value:
            return f"{name} was {_shown(value)} and is {_shown(now)} now"
    for earlier in stage.after:
        if (reason := outdated(run, earlier)) is not None:
            return f"{earlier.name}: {reason}"
    for name, digest in _foundations(run, stage).items():
        if record.after.get(name) != digest:
            return f"{name} changed after it"
    return record.damage(run.folder[stage.name])


def _foundations(run: Run, stage: Stage) -> dict[str, str]:
    """Digests of the results that a stage rests on; of those that it uses if these are there and up to date."""
    usable = [earlier for earlier in stage.uses if outdated(run, earlier) is None]
    records = {earlier.name: run.folder.record(earlier.name) for earlier in (*stage.after, *usable)}
    if run.source is not None:
        records |= {f"{name} of the run": run.source.folder.record(name) for name in ("prepared", "models")}
    return {name: "" if record is None else record.digest for name, record in records.items()}


def _shown(value: Any) -> str:
    """A setting in words; of a file its name, and its size and time where only these changed."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
