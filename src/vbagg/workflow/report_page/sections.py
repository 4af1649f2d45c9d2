"""Sections of a page, and of its appendix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg.colours import ColourScale
from vbagg.doctor.text import fact_lines, verdict
from vbagg.geo.assumptions import assumed
from vbagg.geo.units import likelihood_of, link_of
from vbagg.language import ENGLISH, written_in
from vbagg.report import Code, Figure, Finding, Foreign, Section, Table
from vbagg.workflow import pictures
from vbagg.workflow.folder import SETTINGS
from vbagg.workflow.odd_totals import OddTotals
from vbagg.workflow.points_page import points_section
from vbagg.workflow.report_page.inside import inside_section, inside_words
from vbagg.workflow.report_page.scores import score_table
from vbagg.workflow.results import read_verdict
from vbagg.workflow.settings import settings_text

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.geo.observed_totals import Totals
    from vbagg.texts import Texts
    from vbagg.workflow.report_page.subject import Subject


def sections(subject: Subject, scales: Mapping[str, ColourScale], drawn: pictures.Figures) -> Iterator[Section]:
    """Those that everybody sees, with the colours of maps and what was drawn."""
    say = subject.say
    yield Section(say("sections.estimates"), "estimates", _some(drawn, pictures.MAPS))
    yield Section(say("sections.odd_totals"), "odd-totals", [*_odd_totals(subject), *_some(drawn, pictures.ODD)])
    yield from _points(subject, scales)
    yield _validation(subject, drawn)
    yield Section(say("sections.covariates"), "covariates", list(_covariates(subject, drawn)))
    yield Section(say("sections.data"), "data", list(_data(subject)))


def appendix(subject: Subject) -> Iterator[Section]:
    """Those for the statistician."""
    model, say = subject.run.model(subject.response), subject.say
    likelihood, link = likelihood_of(model).name, link_of(model).name
    text = say("sections.fitted_by", likelihood=likelihood, link=link)
    blocks: list[Any] = [text, Foreign([model.status_.message])]
    blocks += [*assumed(subject.prepared), _parameters(say, model.parameters_)]
    yield Section(say("sections.model"), "model", blocks)
    run = subject.run
    validation = run.validation(subject.response)
    if validation is not None:
        yield inside_section(say, validation)
    yield Section(say("sections.settings"), "settings", [Code(settings_text(run.settings, run.folder.path / SETTINGS))])


def _some(drawn: pictures.Figures, names: tuple[str, ...]) -> list[Figure]:
    return [drawn[name] for name in names if name in drawn]


def _odd_totals(subject: Subject) -> Iterator[Any]:
    maps = subject.run.settings.maps
    told = OddTotals(subject.named, subject.prepared.polygons.id, subject.response, maps.level)
    may_match = subject.units.has_counts and not (subject.table["observed"] < 0).any()
    return told.blocks(may_match, maps.match_totals)


def _covariates(subject: Subject, drawn: pictures.Figures) -> Iterator[Any]:
    """How much each of them says, and what it says."""
    yield from _some(drawn, (pictures.RELEVANCE,))
    curves = [figure for name, figure in drawn.items() if name.startswith(pictures.DEPENDENCE)]
    if curves:
        yield subject.say("sections.curves", level=subject.level, exposure=subject.say.noun(subject.prepared.exposure))
        yield from curves


def _points(subject: Subject, scales: Mapping[str, ColourScale]) -> Iterator[Section]:
    found = points_section(
        subject.run, subject.prepared, subject.response, subject.maps, subject.units, subject.folder, scales
    )
    if found is not None:
        yield found


def _validation(subject: Subject, drawn: pictures.Figures) -> Section:
    validation = subject.run.validation(subject.response)
    fit, say = _some(drawn, ("fitted",)), subject.say
    title = say("sections.validation")
    if validation is None:
        return Section(title, "validation", [say("sections.left_out"), *fit])
    table = score_table(say, validation, subject.units.rate)
    read_verdict(subject.run.folder["validation"] / subject.run.file_name(subject.response))
    text = validation.summary("polygons", unit=subject.units.rate)
    text += _unscored(say, subject.prepared.polygons.totals(subject.response))
    inside: list[Any] = [inside_words(say, validation), *_some(drawn, pictures.INSIDE)]
    return Section(title, "validation", [*inside, text, table, *_some(drawn, pictures.VALIDATION), *fit])


def _unscored(say: Texts, totals: Totals) -> str:
    """Which polygons no fold has."""
    parts = [(totals.missing, "missing"), (totals.suppressed, "suppressed")]
    left = [say(f"sections.unscored_{why}", n=int(which.sum())) for which, why in parts if which.any()]
    return "\n" + say("sections.unscored", which=say.listed(left)) if left else ""


def _data(subject: Subject) -> Iterator[Any]:
    found, say = subject.findings, subject.say
    if found is not None:
        yield say("sections.check")
        with written_in(ENGLISH):
            facts = Table(["what", "found"], [[name, text] for name, text in fact_lines(found.facts)])
            told: list[Any] = [verdict(found), facts, *(Finding(finding.level, finding.text) for finding in found.all)]
        yield Foreign(told)
    known = {finding.text for finding in found.all} if found else set()
    notes = [Finding("advice", note) for note in subject.prepared.notes if note not in known]
    yield say("sections.done") if notes else say("sections.as_they_were")
    yield Foreign(notes)


def _parameters(say: Texts, parameters: pd.DataFrame) -> Table:
    """Learnt parameters; those that all columns of a part share name the columns only if they are few."""
    rows = []
    for row in parameters.to_dict("records"):
        columns = row["columns"].split(", ") if row["columns"] else []
        of = row["columns"] if len(columns) <= 2 else say("sections.all_covariates", n=len(columns))
        known = None if np.isnan(row["user_value"]) else row["user_value"]
        rows.append([row["part"], row["parameter"], of, row["value"], known])
    return Table(
        [say(f"sections.{name}") for name in ("part", "parameter", "of", "value", "in_units")],
        rows,
        say("sections.parameters"),
    )
