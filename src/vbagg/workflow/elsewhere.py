"""A fitted run on new ground: maps, tables and a page in a folder of their own, in stages like those of a run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vbagg
from vbagg.errors import DataWarning, did_you_mean
from vbagg.workflow.folder import SETTINGS, RunFolder
from vbagg.workflow.given import GIVEN, Given, require_whole_files
from vbagg.workflow.progress import Shown, showing
from vbagg.workflow.run import Run, Stage, carry_out, require
from vbagg.workflow.settings import Ground, GroundSettings, Maps, Settings, combine, read_settings
from vbagg.workflow.stages import shares_of_maps

if TYPE_CHECKING:
    from vbagg.geo.prepared import Prepared
    from vbagg.geo.trained import Trained

ELSEWHERE = "elsewhere"
RESTS_ON = ("prepared", "models")
"""Stages of the run that new ground is predicted from."""


def predict(
    out: str | os.PathLike[str] = "vbagg-out",
    *,
    force: bool = False,
    progress: bool = True,
    client: Any = None,
    **options: Any,
) -> Run:
    """Maps of a fitted run on new ground: another year, scenario or country. `vbagg predict` in Python.

    Parameters
    ----------
    out
        Folder of the run, which is not changed. Nothing is fitted.
    force
        Do again what is finished.
    progress
        Show stages and time left on standard error.
    client
        A `distributed.Client` of Dask, whose workers prepare and map.
    options
        Those of the command line: `name`, `covariate` (a mapping from names of the model's covariates to rasters),
        `population`, `population_is`, `grid`, `polygons`, `layer`, `id`, and those of maps (`level`, `per`, `quantile`,
        `threshold`, `to`), which are otherwise those of the run. In the place of a file of polygons goes a
        GeoDataFrame, in that of a raster an xarray.DataArray.

    Returns
    -------
    The prediction as a run: its `maps()`, `prepared()`, `pages()`, `to_xarray()`, `to_geopandas()`, and `beyond()`,
    which tells how much of the new ground lies beyond what the training data cover.
    """
    words, folder = dict(options), Path(out) / ELSEWHERE / str(options.get("name", Ground().name)) / GIVEN
    given = Given.of(_listed(words), folder)
    with showing(progress) as shown:
        settings = ground_settings(Path(out), _by_section(_named(given.words, words)), "options")
        return predict_elsewhere(settings, Path(out), force, shown, given=given, client=client)


def ground_settings(out: Path, given: Mapping[str, Mapping[str, Any]], source: str) -> GroundSettings:
    """Settings of new ground: what was given, over those of the run; or over its own where only its name is given."""
    if not (out / SETTINGS).is_file():
        raise ValueError(f"{out} must be the folder of a fitted run; it has no {SETTINGS}. Do `vbagg run` first.")
    own = out / ELSEWHERE / str(given.get("ground", {}).get("name", Ground().name)) / SETTINGS
    if set(given.get("ground", {})) <= {"name"} and own.is_file():
        return combine(read_settings(own, GroundSettings), given, source)
    base: Settings = read_settings(out / SETTINGS)
    return combine(GroundSettings(**{name: getattr(base, name) for name in Settings.model_fields}), given, source)


def predict_elsewhere(
    settings: GroundSettings,
    out: Path,
    force: bool,
    shown: Shown,
    command: str = "",
    given: Given | None = None,
    client: Any = None,
) -> Run:
    """Carry out all stages on new ground that are not finished."""
    base = Run(read_settings(out / SETTINGS), RunFolder(out))
    if settings.maps.match_totals and not base.settings.maps.match_totals:
        raise ValueError("`match_totals` needs totals that were observed; of new ground there are none. Leave it out.")
    with base.folder.in_use(), _parent(out / ELSEWHERE) as parent:
        require_fitted(base)
        folder = RunFolder(parent / settings.ground.name)
        with folder.in_use():
            job = Run(settings, folder, shown.tell, command, shown.step, None, client, base)
            if given is not None:
                given.write()
            files = settings.ground
            given_files = [files.population, files.polygons, *files.covariate.values(), *settings.maps.to]
            require_whole_files(given_files, "vbagg.geo.predict")
            for stage in STAGES:
                require(job, stage)
                shown.begin(stage.name)
                shown.end(carry_out(job, stage, force))
    return replace(job, client=None)


def require_fitted(run: Run) -> None:
    """Refuse a run without models that are whole; the files that it was made from need not be there any more."""
    for name in RESTS_ON:
        record = run.folder.record(name)
        if record is None:
            reason = "it was not finished"
        elif record.version != vbagg.__version__:
            reason = f"it was made by vbagg {record.version}, and this is {vbagg.__version__}"
        elif (damage := record.damage(run.folder[name])) is not None:
            reason = damage
        elif (
            name == "models" and (before := run.folder.record("prepared")) and record.after["prepared"] != before.digest
        ):
            reason = "prepared changed after it"
        else:
            continue
        raise ValueError(
            f"{run.folder.path} has no {name} that can be used: {reason}. "
            f"Run `vbagg run --out {run.folder.path}` first."
        )


@contextmanager
def _parent(folder: Path) -> Iterator[Path]:
    """The folder of all new ground, which is not left empty."""
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


def _listed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the rasters of covariates as a list."""
    covariates = words.get("covariate")
    if covariates is not None and not isinstance(covariates, Mapping):
        raise ValueError(
            "`covariate` must map names of the model's covariates to rasters, as in {'elevation': 'new.tif'}; got "
            f"{type(covariates).__name__}."
        )
    return {**words, "covariate": list(covariates.values())} if covariates is not None else dict(words)


def _named(words: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the rasters of covariates by name again."""
    if words.get("covariate") is None:
        return dict(words)
    return {**words, "covariate": dict(zip(map(str, before["covariate"]), words["covariate"], strict=True))}


def _by_section(words: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Options by their section: those of the new ground, those of maps, and the language of the report."""
    given: dict[str, dict[str, Any]] = {}
    kinds = {"ground": [*Ground.model_fields], "maps": [*Maps.model_fields], "report": ["language"]}
    for word, value in words.items():
        section = next((name for name, fields in kinds.items() if word in fields), None)
        if section is None:
            known = [field for fields in kinds.values() for field in fields]
            raise ValueError(f"There is no option `{word}` of new ground{did_you_mean(word, known)}")
        alone = word in ("to", "quantile") and not isinstance(value, list | tuple)
        given.setdefault(section, {})[word] = (value,) if alone else value
    return given


def _prepare(run: Run, folder: Path) -> None:
    from vbagg.geo.beyond import suspicions
    from vbagg.geo.ground import prepare_ground

    assert run.source is not None
    base, ground, missing = run.source.prepared(), run.settings.ground, run.source.settings.data.missing  # type: ignore[attr-defined]
    prepared = prepare_ground(
        base,
        ground.covariate,
        population=ground.population,
        population_is=ground.population_is,
        grid=ground.grid,
        polygons=ground.polygons,
        layer=ground.layer,
        id=ground.id,
        missing="nearest" if missing == "median" else missing,
        folder=folder,
        progress=run.tell,
        client=run.client,
    )
    prepared.save(folder)
    for note in prepared.notes:
        run.folder.log(f"prepared: {note}")
    for text in suspicions(prepared, _trained(run, base, base.responses[0])):
        warnings.warn(text, DataWarning, stacklevel=2)


def _trained(run: Run, base: Prepared, response: str) -> Trained:
    """What the training data of the run cover."""
    from vbagg.geo.trained import Trained

    run.tell("looking at the training data")
    return Trained.of(base, response)


def _map(run: Run, folder: Path) -> None:
    from vbagg.geo.ground_maps import write_ground
    from vbagg.geo.maps import contents_of
    from vbagg.geo.polygons import read_polygons
    from vbagg.geo.units import usual_per

    assert run.source is not None
    prepared, base, options = run.prepared(), run.source.prepared(), run.settings.maps
    others = [(path.stem, read_polygons(path)) for path in options.to]
    per = usual_per(prepared.exposure, options.per)
    for response in base.responses:
        model, name = run.model(response), run.file_name(response)
        contents = contents_of(model, prepared, response, options.level, options.quantile, options.threshold, per)
        written = write_ground(
            model,
            prepared,
            _trained(run, base, response),
            folder / name,
            contents,
            others=others,
            progress=shares_of_maps(run, f"{response}: maps"),
            keep=run.folder.kept(MAPS.name) / name if len(prepared.pieces.all) > 1 else None,
            client=run.client,
        )
        for sentence in written.beyond.sentences():
            run.folder.log(f"maps: {response}: {sentence}")


def _report(run: Run, folder: Path) -> None:
    from vbagg.workflow.ground_page import write_ground_pages

    write_ground_pages(run, folder)


PREPARED = Stage("prepared", "predict", _prepare)
MAPS = Stage("maps", "predict", _map, (PREPARED,))
REPORT = Stage("report", "predict", _report, (MAPS,))
STAGES = (PREPARED, MAPS, REPORT)
