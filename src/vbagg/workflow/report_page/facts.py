"""What is told of a polygon where the reader points at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg import numerals
from vbagg.geo.bounds import in_words
from vbagg.geo.observed_totals import MISSING, OBSERVED, STATE
from vbagg.geo.told import COMPLETENESS, RELATIVE_SD
from vbagg.workflow.odd_totals import percentage

if TYPE_CHECKING:
    from vbagg.workflow.report_page.subject import Subject


def facts_of(subject: Subject, row: Any) -> dict[str, str]:
    """Labels and texts, the name first."""
    exposure = subject.prepared.exposure
    state = OBSERVED if np.isfinite(row["observed"]) else row[STATE]
    observed = numerals.count(row["observed"])
    if state != OBSERVED:
        bounds = "" if state == MISSING else f": {in_words((row['observed_lower'], row['observed_upper']))}"
        observed = f"{state}{bounds}"
    rate = {f"Observed {subject.units.rate}": numerals.rate(row["observed_rate"])}
    return {
        "Polygon": str(row[subject.prepared.polygons.id]),
        f"Observed {subject.response}": observed,
        **_reported(subject, row),
        exposure.capitalize(): f"{numerals.count(row[exposure])}{_uncertain(subject, row)}",
        **(rate if state == OBSERVED else {}),
        "Fitted total": _with_interval(row, "fitted", numerals.count),
        **facts_of_effect(subject, row),
    }


def facts_of_effect(subject: Subject, row: Any) -> dict[str, str]:
    """What is told of a polygon whose total is known, if only within bounds."""
    if not np.isfinite(row["effect"]):
        return {}
    name = "Above what is expected" if subject.by_difference else "Times what is expected"
    odd = {"Stands out": f"chance {percentage(row['chance'])}"} if row["stands_out"] else {}
    others = {"Expected from the others": _with_interval(row, "from_others", numerals.count)}
    return {name: _with_interval(row, "effect", numerals.rate), **others, **odd}


def _reported(subject: Subject, row: Any) -> dict[str, str]:
    """How much of what occurred in a polygon is reported, if that was told."""
    known = subject.prepared.told.completeness is not None and np.isfinite(row[COMPLETENESS])
    return {"Reported": numerals.share(row[COMPLETENESS])} if known else {}


def _uncertain(subject: Subject, row: Any) -> str:
    """How far off the people of a polygon may be."""
    known = subject.prepared.told.sd is not None and np.isfinite(row[RELATIVE_SD])
    return f" (off by {numerals.share(row[RELATIVE_SD])})" if known else ""


def _with_interval(row: Any, name: str, write: numerals.Write) -> str:
    """A number of a row and its interval."""
    return numerals.with_span(row[name], row[f"{name}_lower"], row[f"{name}_upper"], write)
