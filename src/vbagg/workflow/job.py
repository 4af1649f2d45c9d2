"""The whole job, or some of its stages, with progress: what the command line and `vbagg.geo.run` share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from vbagg.workflow.browser import find_browser
from vbagg.workflow.folder import RunFolder
from vbagg.workflow.given import GIVEN, Given, require_whole
from vbagg.workflow.point_words import with_words_of_points
from vbagg.workflow.progress import Shown, showing
from vbagg.workflow.run import Run, carry_out, require
from vbagg.workflow.settings import Settings, from_words
from vbagg.workflow.shared import SharedLayout
from vbagg.workflow.stages import PREPARED, REPORT, STAGES, check_settings

if TYPE_CHECKING:
    from vbagg.doctor import Findings


def run(
    out: str | os.PathLike[str] = "vbagg-out",
    *,
    config: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: bool = True,
    client: Any = None,
    **options: Any,
) -> Run:
    """Make maps with uncertainty, and a report, from polygons with totals and rasters: `vbagg run` in Python.

    Parameters
    ----------
    out
        Folder of the run. What is finished there is not done again, unless its inputs changed.
    config
        TOML file with settings; options come before it.
    force
        Do again what is finished.
    progress
        Show stages and time left on standard error.
    client
        A `distributed.Client` of Dask, whose workers prepare, fit, map and validate.
    options
        Those of the command line, with underscores for hyphens: `polygons="districts.gpkg"`, `covariate=["evi.tif"]`.
        In the place of a file of polygons goes a GeoDataFrame, in that of a raster an xarray.DataArray, whose name is
        that of the covariate. They are kept in the folder `given`, and known by their content.

    Returns
    -------
    The finished run: `pages()`, `maps()`, `model()`, `verdict()`, `validation()`, `prepared()` and `findings()`; maps
    as an xarray.Dataset by `to_xarray()`, polygons as a GeoDataFrame by `to_geopandas()`.
    """
    given = Given.of(options, Path(out) / GIVEN)
    settings = from_words(given.words, None if config is None else Path(config))
    with showing(progress) as shown:
        return carry_out_stages(settings, Path(out), tuple(STAGES), force, shown, given=given, client=client)


def check(*, config: str | os.PathLike[str] | None = None, client: Any = None, **options: Any) -> Findings:
    """Read everything that a run would read, and say what is wrong, odd or good to know: `vbagg check` in Python.

    Takes the options of `run`. Nothing is left on disk.
    """
    with TemporaryDirectory() as scratch:
        given = Given.of(options, Path(scratch))
        given.write()
        settings = from_words(given.words, None if config is None else Path(config))
        return check_settings(settings, client=client)


def carry_out_stages(
    settings: Settings,
    out: Path,
    names: Sequence[str],
    force: bool,
    shown: Shown,
    command: str = "",
    given: Given | None = None,
    client: Any = None,
) -> Run:
    """Carry out these stages one after the other, with what was given as objects."""
    if REPORT.name in names and settings.report.pdf:
        find_browser()  # or else all is done in vain
    folder = RunFolder(out)
    with folder.in_use(), SharedLayout(out) as shared:
        job = Run(settings, folder, shown.tell, command, shown.step, shared, client)
        if given is not None:
            given.write()
        require_whole(settings)
        job = replace(job, settings=with_words_of_points(settings))
        for name in names:
            require(job, STAGES[name])
            shown.begin(name)
            shown.end(carry_out(job, STAGES[name], force))
            if STAGES[name] is PREPARED:
                shared.drop()
    return replace(job, shared=None, client=None)
