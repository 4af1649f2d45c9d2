"""Tables of districts, and of the areas that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg import numerals
from vbagg.files import file_names
from vbagg.geo import display
from vbagg.geo.names import names_in
from vbagg.geo.told import REPORTED
from vbagg.report import Area, AreaTable, Order
from vbagg.workflow.report_page import measures
from vbagg.workflow.report_page.matched import matched_totals
from vbagg.workflow.report_page.measures import Measure
from vbagg.workflow.results import read_areas

if TYPE_CHECKING:
    import geopandas as gpd
    import pandas as pd

    from vbagg.workflow.report_page.subject import Subject

WHOLE = 0.995
"""Part of an area from which on all of it is said to be covered."""


def area_tables(subject: Subject) -> Iterator[AreaTable]:
    """That of districts, then those of other areas."""
    yield district_table(subject)
    for at, path in enumerate(subject.run.settings.maps.to, 1):
        yield other_table(subject, path, f"areas-{at}")


def district_table(subject: Subject) -> AreaTable:
    """Districts of the fit."""
    table, say = subject.table, subject.say
    is_matched = subject.run.settings.maps.match_totals
    if is_matched:
        table = table.assign(matched=matched_totals(subject))
    official, fitted = measures.official(subject), measures.total(subject, "fitted", "fitted")
    burden, other = (official, fitted) if subject.prepared.told.completeness is None else (fitted, official)
    own = [burden, measures.rate(subject, overall_rate), measures.certainty(say), measures.people(subject), other]
    own += [measures.matched(subject)] if is_matched else []
    threshold = subject.run.settings.maps.threshold
    if threshold is not None and f"{subject.prepared.exposure}_above" in table:
        own.append(measures.people_above(subject, threshold))
    own += [measures.odd(say)] if table["chance"].notna().any() else []
    places = [{"district": at} for at in range(len(table))]
    ids = [str(label) for label in table[subject.prepared.polygons.id]]
    title, note = say("table.districts"), _why_they_differ(subject, table)
    return _made(subject, (title, "districts"), table, subject.names.texts, own, places, ids, note=note, adds_up=True)


def other_table(subject: Subject, path: Path, anchor: str) -> AreaTable:
    """Areas of a file that was named by `--to`, which may overlap, so that nothing adds up."""
    say, exposure = subject.say, subject.prepared.exposure
    table = read_areas(subject.maps / f"{path.stem}.gpkg", exposure)
    own = [measures.total(subject, "total", "total")] if "total" in table else []
    own += [measures.rate(subject, None), measures.certainty(say), measures.people(subject)]
    own += [measures.covered(say)] if (table["covered"] < WHOLE).any() else []
    boxes = display.in_degrees(table, subject.frame).bounds.to_numpy().tolist()
    places = [{"bounds": tuple(box) if np.isfinite(box).all() else None} for box in boxes]
    title = say("table.areas", file=path.name)
    names = names_in(table)
    return _made(subject, (title, anchor), table, names.texts, own, places, intro=say("table.areas_intro"))


def overall_rate(table: pd.DataFrame) -> float:
    """Rate of all districts together: of totals that add up, over what each rate is relative to."""
    known = table[table["rate"].notna() & (table["rate"] != 0)]
    base = float((known["fitted"] / known["rate"]).sum())
    return float(table["fitted"].sum()) / base if base else float("nan")


def _made(
    subject: Subject,
    head: tuple[str, str],
    table: gpd.GeoDataFrame,
    names: Sequence[str],
    own: Sequence[Measure],
    places: Sequence[dict[str, Any]],
    ids: Sequence[str] | None = None,
    *,
    intro: str = "",
    note: str = "",
    adds_up: bool = False,
) -> AreaTable:
    """Title and anchor, rows with names and places, and a file whose first columns are names, and ids if there are."""
    say, (title, anchor) = subject.say, head
    lead = list(zip(names, strict=True)) if ids is None else list(zip(names, ids, strict=True))
    rows = table.drop(columns="geometry").to_dict("records")
    areas = [
        Area(name, [one.cell(row) for one in own], [*first, *chain.from_iterable(one.record(row) for one in own)], **at)
        for name, first, row, at in zip(names, lead, rows, places, strict=True)
    ]
    names_of_columns = ["name", "id"][: len(lead[0])] if lead else ["name"]
    return AreaTable(
        title,
        anchor,
        [measures.name_column(say), *(one.column for one in own)],
        areas,
        _orders(subject, own),
        sum=Area(say("table.sum"), [one.sum(table) for one in own]) if adds_up else None,
        intro=intro,
        note=note,
        file=f"{file_names([subject.response])[0]}_{anchor}.csv",
        headers=[*names_of_columns, *chain.from_iterable(one.file for one in own)],
    )


def _orders(subject: Subject, own: Sequence[Measure]) -> list[Order]:
    """By burden, by rate and by certainty, as far as there are such columns: they come first."""
    say = subject.say
    names = ["burden", "rate", "certainty"]
    names = names if "rate" not in own[0].file else names[1:]
    return [Order(say(f"table.order_{name}"), at, own[at - 1].column.falling) for at, name in enumerate(names, 1)]


def _why_they_differ(subject: Subject, table: gpd.GeoDataFrame) -> str:
    """What official, fitted and matched totals are, and what they add up to."""
    say, known = subject.say, table["observed"].notna()
    is_matched, is_part = "matched" in table, REPORTED in table
    sums: dict[str, Any] = {name: _sum(table[name]) for name in ("observed", "fitted", "matched") if name in table}
    told = [say("table.sums_matched" if is_matched else "table.sums_fitted", **sums)]
    if not known.all():
        told.append(say("table.why_gaps", n=int((~known).sum()), fitted=_sum(table["fitted"][~known])))
    if is_part:
        told.append(say("table.why_reported", reported=_sum(table[REPORTED])))
    told.append(say("table.why_fitted"))
    if is_matched:
        told.append(say("table.why_matched_reported" if is_part else "table.why_matched"))
    return " ".join(told)


def _sum(totals: pd.Series) -> str:
    return numerals.count(float(totals.sum()))
