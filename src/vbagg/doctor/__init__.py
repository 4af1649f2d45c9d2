"""The doctor: reads all that a run would read, and says what is wrong, odd or good to know before any modelling."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from vbagg.doctor.catchments import check_catchments
from vbagg.doctor.cost import check_size, expected_cost
from vbagg.doctor.facts import facts_of, polygon_facts
from vbagg.doctor.findings import Finding, Findings, Gathered
from vbagg.doctor.layers import check_layers
from vbagg.doctor.modelling import check_exposure, check_landmarks, check_model, check_trials
from vbagg.doctor.overlaid import choose_target, overlaid
from vbagg.doctor.people import check_people
from vbagg.doctor.places import check_names, check_places, check_polygons
from vbagg.doctor.plans import check_folds, check_other_polygons
from vbagg.doctor.points import check_points, check_use, lie_on, read_surveys
from vbagg.doctor.reading import read_inputs, seldom
from vbagg.doctor.told import check_told, check_told_of_model
from vbagg.doctor.totals import check_responses
from vbagg.geo.bands import kept_open
from vbagg.geo.workers import places_of

if TYPE_CHECKING:
    from vbagg.geo.layout import Layout, Tell
    from vbagg.workflow.settings import Data, Maps, Model, Validation

__all__ = ["Finding", "Findings", "check", "examine"]


def check(
    data: Data,
    model: Model | None = None,
    validation: Validation | None = None,
    maps: Maps | None = None,
    announce: Tell = lambda text: None,
    client: Any = None,
) -> Findings:
    """Look at the inputs of a run, and at what is planned with them as far as it is given.

    Nothing is kept. What is wrong with one input does not keep others from being looked at. `announce` is called with
    what reading will take, before it begins, where that is long. Workers of a `client` read the rasters.
    """
    with TemporaryDirectory(prefix="vbagg-") as folder:
        return examine(data, model, validation, maps, folder=Path(folder), announce=announce, client=client)[0]


def examine(
    data: Data,
    model: Model | None = None,
    validation: Validation | None = None,
    maps: Maps | None = None,
    *,
    folder: Path,
    announce: Tell = lambda text: None,
    tell: Tell = lambda text: None,
    client: Any = None,
    thorough: bool = True,
) -> tuple[Findings, Layout | None]:
    """The same, with the layout of polygons and rasters that was judged: it is in a folder, for `prepare` to go on.

    Unless it is to be `thorough`, errors that are known before rasters are read are the end of it.
    """
    found = Gathered()
    facts: dict[str, Any] = {}
    if model is not None:
        check_model(model, data.negative, found)
    inputs = read_inputs(data, found, seldom(announce, tell))
    polygons, surveys = inputs.polygons, read_surveys(data, found)
    if model is not None and surveys is not None:
        check_use(surveys, model, inputs.exposure.kind, found)
    if model is not None:
        check_exposure(model, inputs.exposure, found)
        check_told_of_model(data, model, found)
    if polygons is None:
        return found.findings(facts), None
    names = check_names(polygons, data.name, found)
    facts["polygons"] = polygon_facts(polygons, names)
    check_polygons(polygons, inputs.responses, inputs.exposure.kind, found)
    usable_trials = model is not None and check_trials(polygons, inputs.responses, model, found)
    if not thorough and found.findings(facts).errors:
        return found.findings(facts), None
    with kept_open():
        target = choose_target(inputs, polygons, data, found) if inputs.can_make_a_grid(data) else None
        if surveys is not None and target is not None and not lie_on(target.overlay.grid, surveys, found):
            surveys = None
            if not thorough:
                return found.findings(facts), None
        if target is None or not check_size(target.overlay, inputs, model, found, announce, client):
            return found.findings(facts), None
        laid = overlaid(inputs, polygons, target, data, found, folder, tell, places_of(client))
        if laid is None:
            return found.findings(facts), None
        check_places(laid, found)
        facts |= check_catchments(laid, found)
        check_people(laid, inputs.exposure.column, found)
        check_told(laid, inputs.doubt, found)
        check_layers(laid, data.missing, found)
        check_responses(laid, model, usable_trials, found)
        if model is not None:
            check_landmarks(laid, model, found)
        if validation is not None:
            check_folds(laid, validation, found)
        if maps is not None:
            check_other_polygons(laid, maps, found)
        facts |= {} if surveys is None else {"points": check_points(surveys, laid, found)}
        facts |= facts_of(laid, polygons, data, model.trials if model is not None and usable_trials else None, names)
    facts["fit"] = expected_cost(laid, model)
    return found.findings(facts), laid.layout
