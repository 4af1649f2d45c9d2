"""What is known of differences inside districts: fits to groups of these, and refits to simulated totals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vbagg import numerals
from vbagg.report import Explained, Figure, Section, Table
from vbagg.validate.bag_scores import LEVELS, percent
from vbagg.validate.picture import PANELS
from vbagg.validate.recovered import R2_WITHIN
from vbagg.validate.unions import NAMED

if TYPE_CHECKING:
    from vbagg.report.content import TableText
    from vbagg.texts import Texts
    from vbagg.validate import Nested, Recovery, Validation

LEVEL = 0.9
"""Of intervals whose coverage is told."""


def inside_figures(say: Texts, validation: Validation, into: Path) -> dict[str, Figure]:
    """Skill and coverage by scale, as pictures in a folder; none where nothing could be fitted."""
    nested = validation.nested
    if nested is None or not nested.sums:
        return {}
    words = say("inside.districts"), say("inside.cells")
    return {
        f"inside_{panel}": Figure(
            nested.plot(into / f"inside_{panel}.png", validation.recovery, *words, panels=[panel]),
            say(f"inside.about_{panel}"),
            say(f"inside.alt_{panel}"),
        )
        for panel in PANELS
    }


def inside_words(say: Texts, validation: Validation) -> str:
    """What was done to test the map inside districts, and what refits recover there."""
    return " ".join([*_of_groups(say, validation.nested), *_of_refits(say, validation.recovery)])


def inside_section(say: Texts, validation: Validation) -> Section:
    """Tables for the statistician; empty where there is nothing to tell."""
    blocks: list[Any] = []
    if validation.nested is not None and validation.nested.sums:
        blocks += [_scales(say, validation), *validation.nested.notes]
    recovery = validation.recovery
    if recovery is not None and recovery.has_results:
        blocks += [_measures(say, recovery), *recovery.notes]
    return Section(say("inside.title"), "inside", blocks)


def _of_groups(say: Texts, nested: Nested | None) -> Iterator[str]:
    if nested is None:
        yield say("inside.untested")
        return
    if nested.sums:
        yield say("inside.larger" if NAMED in nested.sums else "inside.groups")
    reasons = dict.fromkeys(one["reason"].rstrip(". ") for one in nested.failures)
    for reason in reasons:
        yield say("inside.failed" if nested.sums else "inside.all_failed", reason=reason)


def _of_refits(say: Texts, recovery: Recovery | None) -> Iterator[str]:
    if recovery is None:
        return
    if recovery.has_results:
        value, error = recovery.summary().loc[R2_WITHIN, ["mean", "std_error"]]
        give = "" if np.isnan(error) else say("inside.give_or_take", error=_share(error))
        told = say("inside.recovers" if value > 0 else "inside.recovers_nothing", share=_share(value), give=give)
        yield f"{told} {say('inside.holds', level=numerals.level(LEVEL), held=_share(recovery.coverage(LEVEL)))}"
    if recovery.failures:
        reason = next(iter(recovery.failures.values())).rstrip(". ")
        failed, of = len(recovery.failures), numerals.count(len(recovery.refits))
        yield say("inside.refits_failed", n=failed, of=of, reason=reason)


def _scales(say: Texts, validation: Validation) -> Table:
    """One row for each scale, and one for cells."""
    assert validation.nested is not None
    rows = []
    for row in validation.nested.trend(validation.recovery).to_dict("records"):
        seen = row["observed"]
        rows.append(
            [
                say("inside.groups_of", parts=numerals.count(round(row["size"]))) if seen else say("inside.expected"),
                numerals.count(row["unions"]) if seen else numerals.NOTHING,
                numerals.with_span(row["skill"], row["low"], row["high"], _share),
                _share(row["claimed"]),
                numerals.probability(row["p_better"]).removeprefix("= ") if seen else numerals.NOTHING,
                *(_held(row, level) for level in (0.5, LEVEL)),
            ]
        )
    heads: list[TableText] = [
        "",
        say("inside.number"),
        Explained(say("inside.skill"), "skill"),
        say("inside.claimed"),
        Explained(say("inside.chance"), "p"),
        *(Explained(say("inside.held", level=numerals.level(level)), "coverage") for level in (0.5, LEVEL)),
    ]
    return Table(heads, rows, say("inside.scales"))


def _held(row: dict[str, Any], level: float) -> str:
    name = percent(level)
    return numerals.with_span(row[f"coverage_{name}"], row[f"low_{name}"], row[f"high_{name}"], _share)


def _measures(say: Texts, recovery: Recovery) -> Table:
    """What refits recover, on average."""
    summary = recovery.summary()
    named = {R2_WITHIN: say("inside.recovered")}
    named |= {f"coverage_{percent(level)}": say("inside.held", level=numerals.level(level)) for level in LEVELS}
    rows = [[text, *map(_share, summary.loc[name, ["mean", "std_error"]])] for name, text in named.items()]
    made = len(recovery.refits) - len(recovery.failures)
    return Table(["", say("inside.mean"), say("inside.error")], rows, say("inside.refits", n=made))


def _share(value: float) -> str:
    """Without decimals, which these numbers do not have."""
    return numerals.share(round(float(value), 2))
