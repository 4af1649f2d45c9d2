"""The pages of a run, one for each response."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import vbagg
from vbagg.geo import display
from vbagg.language import written_in
from vbagg.report import Districts, MadeWith, MapLayer, Report, write_report
from vbagg.report.scales import scales_of
from vbagg.workflow import pictures
from vbagg.workflow.browser import find_browser, write_pdf
from vbagg.workflow.report_page.above import above_curve
from vbagg.workflow.report_page.beside import files_section
from vbagg.workflow.report_page.facts import facts_of
from vbagg.workflow.report_page.judgement import judgement_of, opens_on, why_it_opens
from vbagg.workflow.report_page.key_figures import Sums, key_figures
from vbagg.workflow.report_page.layers import map_layers
from vbagg.workflow.report_page.opening import opening, subtitle
from vbagg.workflow.report_page.orientation import orientation_of
from vbagg.workflow.report_page.sections import appendix, sections
from vbagg.workflow.report_page.subject import Subject
from vbagg.workflow.report_page.tables import area_tables
from vbagg.workflow.run import Run

if TYPE_CHECKING:
    from vbagg.doctor import Findings

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
        with written_in(run.settings.report.language):
            page = _write_page(Subject(run, prepared, response, folder, findings))
        if run.settings.report.pdf:
            run.tell(f"{response}: PDF")
            write_pdf(find_browser(), page, page.with_suffix(".pdf"))


def _write_page(subject: Subject) -> Path:
    run, prepared, response, folder = subject.run, subject.prepared, subject.response, subject.folder
    run.tell(f"{response}: plots")
    layers = map_layers(subject)
    drawn = pictures.draw_all(run, prepared, response, subject.maps, subject.table, folder, scales_of(layers))
    run.tell(f"{response}: page")
    name = "report.html" if len(prepared.responses) == 1 else f"report_{run.file_name(response)}.html"
    return write_report(folder / name, report_of(subject, layers, drawn))


def _facts(subject: Subject) -> list[dict[str, str]]:
    """What is told of each district."""
    rows = subject.table.drop(columns="geometry").to_dict("records")
    return [facts_of(subject, name, row) for name, row in zip(subject.names.texts, rows, strict=True)]


def report_of(subject: Subject, layers: list[MapLayer], drawn: pictures.Figures) -> Report:
    """The page of a response, with its maps and what was drawn for it."""
    run, table, judgement = subject.run, subject.table, judgement_of(subject)
    sums = Sums(subject, table)
    layers = sorted(layers, key=lambda layer: layer.name != opens_on(judgement))
    made = subject.say.date(date.today())
    return Report(
        title=run.settings.report.title or subject.say("page.title", response=subject.name),
        subtitle=subtitle(subject, made),
        paragraph=opening(subject, sums, layers),
        judgement=judgement,
        summary=key_figures(subject, sums),
        above=above_curve(subject, judgement),
        tables=list(area_tables(subject)),
        layers=layers,
        bounds=subject.frame.bounds,
        map_note=why_it_opens(subject.say, judgement),
        districts=Districts(display.outlines(table, subject.frame), _facts(subject)),
        orientation=orientation_of(run, subject.maps, subject.frame),
        sections=[*sections(subject, scales_of(layers), drawn), files_section(subject, layers)],
        appendix=list(appendix(subject)),
        citation=CITATION.format(version=vbagg.__version__),
        made_with=MadeWith(vbagg.__version__, made, run.command),
        names=[subject.response, *subject.prepared.covariates],
        language=run.settings.report.language,
        compare=next(name for name in ("observed", "rate_mean") if name != opens_on(judgement)),
    )
