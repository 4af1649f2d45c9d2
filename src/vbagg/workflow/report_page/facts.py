"""What is told of a district where the reader points at it."""

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


def facts_of(subject: Subject, name: str, row: Any) -> dict[str, str]:
    """Labels and texts, the name first."""
    say, exposure, id = subject.say, subject.prepared.exposure, str(row[subject.prepared.polygons.id])
    state = OBSERVED if np.isfinite(row["observed"]) else row[STATE]
    rate = say("facts.observed_rate", rate=subject.units.rate)
    return {
        say("facts.district"): name,
        **({} if id == name else {say("facts.id"): id}),
        say("facts.observed", response=subject.response): _observed(subject, row, state),
        **_reported(subject, row),
        say(f"table.{exposure}"): f"{numerals.count(row[exposure])}{_uncertain(subject, row)}",
        **({rate: numerals.rate(row["observed_rate"])} if state == OBSERVED else {}),
        say("facts.fitted"): _with_interval(subject, row, "fitted", numerals.count),
        **facts_of_effect(subject, row),
    }


def facts_of_effect(subject: Subject, row: Any) -> dict[str, str]:
    """What is told of a district whose total is known, if only within bounds."""
    if not np.isfinite(row["effect"]):
        return {}
    say = subject.say
    chance = say("table.chance", chance=percentage(row["chance"]))
    return {
        say("facts.above" if subject.by_difference else "facts.times"): _with_interval(
            subject, row, "effect", numerals.rate
        ),
        say("facts.from_others"): _with_interval(subject, row, "from_others", numerals.count),
        **({say("facts.odd"): chance} if row["stands_out"] else {}),
    }


def _observed(subject: Subject, row: Any, state: str) -> str:
    """A total, or what is known of it."""
    if state == OBSERVED:
        return numerals.count(row["observed"])
    word = subject.say(f"facts.{state}")
    if state == MISSING:
        return word
    return subject.say("facts.within", state=word, bounds=in_words((row["observed_lower"], row["observed_upper"])))


def _reported(subject: Subject, row: Any) -> dict[str, str]:
    """How much of what occurred in a district is reported, if that was told."""
    known = subject.prepared.told.completeness is not None and np.isfinite(row[COMPLETENESS])
    return {subject.say("facts.reported"): numerals.share(row[COMPLETENESS])} if known else {}


def _uncertain(subject: Subject, row: Any) -> str:
    """How far off the people of a district may be."""
    known = subject.prepared.told.sd is not None and np.isfinite(row[RELATIVE_SD])
    return f" ({subject.say('facts.off_by', share=numerals.share(row[RELATIVE_SD]))})" if known else ""


def _with_interval(subject: Subject, row: Any, name: str, write: numerals.Write) -> str:
    """A number of a row and its interval."""
    value, low, high = (write(row[f"{name}{end}"]) for end in ("", "_lower", "_upper"))
    return f"{value} ({subject.say('numbers.range', low=low, high=high)})"
