"""What the stages do: prepare, fit, map, validate, and write the report."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbagg.errors import DataWarning, did_you_mean
from vbagg.workflow.folder import SETTINGS
from vbagg.workflow.point_words import with_words_of_points
from vbagg.workflow.results import CHANGE, write_findings, write_people_above, write_validation
from vbagg.workflow.run import WITHOUT_POINTS, Run, Stage, outdated
from vbagg.workflow.settings import NEIGHBOURS, NO_AREAS, Settings

if TYPE_CHECKING:
    from vbagg.doctor import Findings
    from vbagg.geo.prepare import Prepared
    from vbagg.models.observations import Observations
    from vbagg.models.vbagg import VBAgg
    from vbagg.validate import Nested

PREDICTED = 0.9
"""Share of the time for maps that pieces take; filling bands of rows takes the rest."""
FOLDS = 0.8
"""Share of the time for validation that folds take, where refits follow."""


def check_settings(
    settings: Settings, announce: Callable[[str], None] = lambda text: None, client: Any = None
) -> Findings:
    """Look at the inputs of a run and at what is planned with them; work that takes long is announced."""
    from vbagg import doctor

    settings = with_words_of_points(settings)
    return doctor.check(settings.data, settings.model, settings.validation, settings.maps, announce, client)


def _examined(run: Run) -> Findings:
    """The same; what was laid out for it is left for the next stage, if there is a place for it."""
    from vbagg import doctor

    if run.shared is None:
        return check_settings(run.settings, run.tell, run.client)
    chosen = run.settings
    findings, run.shared.layout = doctor.examine(
        chosen.data,
        chosen.model,
        chosen.validation,
        chosen.maps,
        folder=run.shared.folder(),
        announce=run.folder.log,
        tell=run.tell,
        client=run.client,
        thorough=False,
    )
    return findings


def _check(run: Run, folder: Path) -> None:
    from vbagg.geo.files import plural

    findings = _examined(run)
    for finding in findings.warnings:
        warnings.warn(finding.text, DataWarning, stacklevel=2)
    if findings.errors:
        first, *others = findings.errors
        more = f" `vbagg check` tells {plural(len(others), 'more error')}." if others else ""
        raise ValueError(first.text + more)
    write_findings(findings, folder)


def _prepare(run: Run, folder: Path) -> None:
    from vbagg.geo.prepare import prepare

    data, place = run.settings.data, f"in [data] of {run.folder.path / SETTINGS}"
    if data.polygons is None and data.facilities is None:
        raise ValueError(f"Polygons are missing. Name the file with `--polygons`, or `polygons` {place}.")
    if not data.response:
        raise ValueError(f"A response is missing. Name the column with the totals by `--response`, or {place}.")
    prepared = prepare(
        data.polygons,
        data.id,
        data.response,
        data.population,
        data.covariate,
        layer=data.layer,
        totals=data.totals,
        on=data.on,
        sheet=data.sheet,
        unmatched=data.unmatched,
        suppressed=data.suppressed,
        negative=data.negative,
        categories=data.category,
        resolution=data.resolution,
        population_is=data.population_is,
        population_column=data.population_column,
        exposure_column=data.exposure_column,
        spread_by=data.spread_by,
        completeness_column=data.completeness_column,
        population_sd=data.population_sd,
        population_sd_column=data.population_sd_column,
        population_errors=data.population_errors,
        shares=data.shares,
        share_columns=data.share_columns,
        facilities=data.facilities,
        at=data.at,
        friction=data.friction,
        decay=data.decay,
        reach=data.reach,
        attraction=data.attraction,
        staying=data.staying,
        missing=data.missing,
        points=data.points,
        point_response=data.point_response,
        point_trials=data.point_trials,
        point_people=data.point_people,
        point_crs=data.point_crs,
        point_sheet=data.point_sheet,
        folder=folder,
        progress=run.tell,
        layout=None if run.shared is None else run.shared.layout,
        client=run.client,
    )
    prepared.save(folder)
    for note in prepared.notes:
        run.folder.log(f"prepared: {note}")


def make_model(settings: Settings) -> VBAgg:
    """The model that the settings describe."""
    import vbagg

    chosen = settings.model
    return vbagg.VBAgg(
        chosen.likelihood,
        chosen.link,
        landmarks=chosen.landmarks,
        hyper=chosen.hyper,
        random_state=chosen.seed,
    )


def _fit(run: Run, folder: Path) -> None:
    prepared = run.prepared()
    also = observations_of(run.settings, prepared)
    wanted = [(also, folder, "")]
    if also is not None:
        wanted.append((None, folder / WITHOUT_POINTS, " without points"))
        (folder / WITHOUT_POINTS).mkdir()
    for response in prepared.responses:
        for further, place, which in wanted:
            model = _fitted(run, prepared, response, further, response + which)
            model.save(place / f"{run.file_name(response)}.vbagg")
            for sentence in (model.status_.message, *model.status_.notes):
                run.folder.log(f"models: {response}{which}: {sentence}")


def _fitted(run: Run, prepared: Prepared, response: str, also: Observations | None, what: str) -> VBAgg:
    """A model of a response; with points it is fitted in this process, whatever workers there are."""
    client = run.client if also is None else None
    return make_model(run.settings).fit(
        prepared.bags() if client is None else prepared.stored_bags(),
        prepared.y(response),
        trials=trials_of(run, prepared),
        progress=_fit_progress(run, what),
        client=client,
        upper=prepared.upper(response),
        also=also,
        **prepared.reporting(),
    )


def observations_of(settings: Settings, prepared: Prepared) -> Observations | None:
    """Points as a model learns from them; None without any."""
    points, chosen = prepared.points, settings.model
    if points is None:
        return None
    import vbagg
    from vbagg.geo.cell_features import point_bags
    from vbagg.geo.points import observed_as

    likelihood, slope = observed_as(
        points.sized_by, chosen.likelihood, chosen.point_likelihood, chosen.point_slope, prepared.exposure
    )
    return vbagg.Observations(
        point_bags(prepared), points.y, likelihood, trials=points.trials, slope=slope, name=points.file
    )


def trials_of(run: Run, prepared: Prepared) -> Any:
    """Numbers of trials by polygon, None without a column of them."""
    column = run.settings.model.trials
    return None if column is None else prepared.y(column)


def _fit_progress(run: Run, what: str) -> Callable[[dict[str, Any]], None]:
    def report(entry: dict[str, Any]) -> None:
        if "objective" in entry:
            run.tell(f"{what}: evaluation {entry.get('evaluation', 0)}, objective {entry['objective']:.1f}")

    return report


def _map(run: Run, folder: Path) -> None:
    from vbagg.geo.above import PeopleAbove
    from vbagg.geo.aggregate import aggregate, polygon_table, write_polygons
    from vbagg.geo.ahead import predict_ahead
    from vbagg.geo.maps import write_maps
    from vbagg.geo.polygons import read_polygons
    from vbagg.geo.units import usual_per
    from vbagg.workflow.odd_totals import OddTotals

    prepared, options = run.prepared(), run.settings.maps
    per = usual_per(prepared.exposure, options.per)
    trials, others = run.settings.model.trials, [read_polygons(path) for path in options.to]
    for response in prepared.responses:
        model, own = run.model(response), folder / run.file_name(response)
        keep = run.folder.kept(MAPS.name) / run.file_name(response) if len(prepared.pieces.all) > 1 else None
        shared: dict[str, Any] = {"keep": keep, "client": run.client}
        shown: dict[str, Any] = {"level": options.level, "quantiles": options.quantile, "threshold": options.threshold}
        told = shares_of_maps(run, f"{response}: maps")
        run.tell(f"{response}: maps")
        above = PeopleAbove.of(model, prepared, response, per, options.threshold)
        if keep is not None:
            asked: dict[str, Any] = {"response": response, "per": per, "trials": trials}
            predict_ahead(model, prepared, others, above, report=told, **asked, **shown, **shared)
        people = above.table(model, prepared, options.level, **shared)
        write_maps(
            model,
            prepared,
            own,
            response=response,
            per=per,
            match_totals=options.match_totals,
            progress=told,
            **shown,
            **shared,
        )
        write_people_above(people, own)
        if prepared.points is not None:
            _map_without_points(run, prepared, response, own)
        run.tell(f"{response}: polygons")
        table = polygon_table(model, prepared, response, options.level, per, trials, options.threshold, **shared)
        write_polygons(table, own)
        run.folder.log(f"maps: {OddTotals(table, prepared.polygons.id, response, options.level).sentence()}")
        for path, polygons in zip(options.to, others, strict=True):
            run.tell(f"{response}: {path.name}")
            table = aggregate(model, prepared, polygons, response, options.level, per, **shared)
            write_polygons(table, own, path.stem)


def _map_without_points(run: Run, prepared: Prepared, response: str, own: Path) -> None:
    """Maps of the model without points, and how those with points differ from them."""
    from vbagg.geo.maps import write_maps
    from vbagg.geo.ratio import RATIO, write_ratio
    from vbagg.geo.units import usual_per
    from vbagg.texts import texts_in

    options, what = run.settings.maps, f"{response}: maps without points"
    run.tell(what)
    write_maps(
        run.model_without_points(response),
        prepared,
        own / WITHOUT_POINTS,
        response=response,
        level=options.level,
        per=usual_per(prepared.exposure, options.per),
        progress=shares_of_maps(run, what),
        client=run.client,
    )
    change = write_ratio(own, own / WITHOUT_POINTS, prepared.exposure, texts_in()(f"maps.{RATIO}"))
    (own / CHANGE).write_text(json.dumps(change.document(), indent=1), encoding="utf-8")


def _validate(run: Run, folder: Path) -> None:
    from vbagg.geo.files import plural
    from vbagg.geo.units import usual_per
    from vbagg.geo.workers import holds_all
    from vbagg.validate import cross_validate
    from vbagg.workflow.recovering import recover

    prepared = run.prepared()
    skipped = run.settings.validation.skip
    also = observations_of(run.settings, prepared)
    here = run.client is None or skipped or also is not None or holds_all(run.client, prepared.table)
    bags: Any = prepared.bags() if here else prepared.stored_bags()
    larger = None if skipped else _larger_areas(run, prepared)
    refits = not skipped and _may_recover(run, here)
    for response in () if skipped else prepared.responses:
        y, upper = prepared.y(response), prepared.upper(response)
        if upper is not None:
            y = y.where(upper.isna())
            number = plural(int(upper.notna().sum()), "suppressed total")
            run.folder.log(f"validation: {response}: {number} left out, since scores need the totals themselves")
        models = {"vbagg": make_model(run.settings)}
        if also is not None:
            models["without points"] = make_model(run.settings)
        validation = cross_validate(
            models,
            bags,
            y,
            partial(_folds, run, prepared, y),
            trials=trials_of(run, prepared),
            progress=_by_fold(run, response, FOLDS if refits else 1.0),
            per=usual_per(prepared.exposure, run.settings.maps.per),
            keep=run.folder.kept(VALIDATION.name) / run.file_name(response),
            client=run.client,
            also=None if also is None else {"vbagg": also},
            **prepared.reporting(),
        )
        inside = _inside(run, prepared, response, bags, y, larger)
        recovery = recover(run, prepared, response, bags, trials_of(run, prepared), FOLDS) if refits else None
        found = replace(validation, nested=inside, recovery=recovery, test_inside=None)
        write_validation(found, folder / run.file_name(response), rate_units(run, prepared, response))
        for note in validation.notes:
            run.folder.log(f"validation: {response}: {note}")


def _may_recover(run: Run, here: bool) -> bool:
    """Whether refits to simulated totals are wanted, and the models and pixels are there for them."""
    from vbagg.workflow.recovering import TEXTS

    if not run.settings.validation.recovery:
        return False
    reason = outdated(run, MODELS)
    why_not = TEXTS["distant"] if not here else "" if reason is None else TEXTS["no_model"].format(reason=reason)
    if why_not:
        run.folder.log(f"{VALIDATION.name}: {why_not}")
        run.step(why_not)
    return not why_not


def _larger_areas(run: Run, prepared: Prepared) -> Any:
    """The larger area of each polygon, from a column; None for groups of neighbours."""
    column = run.settings.validation.nested
    if column in (NEIGHBOURS, NO_AREAS):
        return None
    return _column(prepared, column, prepared.polygons.labels)


def _inside(run: Run, prepared: Prepared, response: str, bags: Any, y: Any, larger: Any) -> Nested | None:
    """What fits to larger areas say of the polygons inside; None where that is left out, or too few to tell."""
    from vbagg.bags import Bags
    from vbagg.validate import nested
    from vbagg.validate.verdict import FEWEST_BAGS

    if run.settings.validation.nested == NO_AREAS or y.notna().sum() < FEWEST_BAGS or not isinstance(bags, Bags):
        return None
    told = prepared.reporting()
    return nested(
        make_model(run.settings),
        bags,
        y,
        None if larger is None else larger.loc[list(bags.labels)],
        fitted=run.model(response) if prepared.points is None and outdated(run, MODELS) is None else None,
        trials=trials_of(run, prepared),
        progress=_by_scale(run, response),
        keep=run.folder.kept(VALIDATION.name) / run.file_name(response),
        **told,
    )


def _by_scale(run: Run, response: str) -> Callable[[dict[str, Any]], None]:
    """Tell which larger areas are fitted."""

    def report(entry: dict[str, Any]) -> None:
        if "scale" in entry:
            run.tell(f"{response}: inside groups of polygons ({entry['scale']})", entry["done"] / entry["of"])

    return report


def _folds(run: Run, prepared: Prepared, y: Any, bags: Any) -> Any:
    from vbagg.validate import random_folds, spatial_folds

    options, seed = run.settings.validation, run.settings.model.seed
    if options.fold_column is not None:
        return _column(prepared, options.fold_column, bags.labels)
    if options.blocks == "spatial":
        return spatial_folds(bags, options.folds, seed)
    return random_folds(bags, options.folds, seed, by=y.loc[list(bags.labels)].to_numpy() / bags.totals())


def _column(prepared: Prepared, name: str, labels: Any) -> Any:
    import pandas as pd

    frame = prepared.polygons.frame
    if name not in frame:
        raise ValueError(
            f"{prepared.polygons.path} has no column {name!r}{did_you_mean(name, map(str, frame.columns))}"
        )
    return pd.Series(frame[name].to_numpy(), index=list(prepared.polygons.labels)).loc[list(labels)]


def rate_units(run: Run, prepared: Prepared, response: str) -> str:
    """Such as "cases per 1000 people"."""
    from vbagg.geo.units import Units, usual_per

    per = usual_per(prepared.exposure, run.settings.maps.per)
    return Units(response, per, prepared.exposure, run.settings.model.likelihood).rate


def _by_fold(run: Run, response: str, most: float) -> Callable[[dict[str, Any]], None]:
    """Tell what is fitted, and of every fold that is finished; shares are of folds, since models take unequal times.

    All folds are so much of the stage at `most`.
    """
    finished = 0.0

    def report(entry: dict[str, Any]) -> None:
        nonlocal finished
        if "finished" not in entry:
            run.tell(f"{response}: fold {entry['fold']}, {entry['model']}", finished)
            return
        finished = most * entry["done"] / entry["of"]
        how = "was finished before" if entry.get("kept") else f"{entry['seconds']:.1f} s"
        text = f"{response}: fold {entry['finished']}, {how}"
        run.folder.log(f"{VALIDATION.name}: {text}")
        run.step(text)

    return report


def shares_of_maps(run: Run, what: str) -> Callable[[dict[str, Any]], None]:
    """Turn entries with `pieces`, or `rows`, and `of` into shares of a stage, most of which is for pieces."""

    def report(entry: dict[str, Any]) -> None:
        if "pieces" in entry:
            run.tell(what, PREDICTED * entry["pieces"] / entry["of"])
        else:
            run.tell(what, PREDICTED + (1 - PREDICTED) * entry["rows"] / entry["of"] if "rows" in entry else None)

    return report


def _report(run: Run, folder: Path) -> None:
    from vbagg.workflow.report_page.page import write_pages

    # what an earlier check found of other inputs is left out
    write_pages(run, folder, run.findings() if outdated(run, CHECK) is None else None)


CHECK = Stage("check", "check", _check)
PREPARED = Stage("prepared", "prepare", _prepare)
MODELS = Stage("models", "fit", _fit, (PREPARED,))
MAPS = Stage("maps", "predict", _map, (MODELS,))
VALIDATION = Stage("validation", "validate", _validate, (PREPARED,), (MODELS,))
REPORT = Stage("report", "report", _report, (MAPS, VALIDATION), (CHECK,))
STAGES = {stage.name: stage for stage in (CHECK, PREPARED, MODELS, MAPS, VALIDATION, REPORT)}
