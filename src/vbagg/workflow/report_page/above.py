"""How many people live above a threshold, as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vbagg import numerals
from vbagg.geo.observed_totals import MISSING, OBSERVED, SUPPRESSED, states_in
from vbagg.geo.round_grid import rounded
from vbagg.report import AboveCurve, Judgement
from vbagg.workflow.results import ABOVE, read_people_above

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.workflow.report_page.subject import Subject

LEFT_OUT = (
    "the page does not say how many people live above a threshold: {path} is not there, as in runs of earlier versions."
    " `vbagg predict --force` makes it."
)


def above_curve(subject: Subject, judgement: Judgement) -> AboveCurve | None:
    """What the stage of the maps found; None if it found nothing, which the log tells."""
    table = read_people_above(subject.maps)
    if table is None:
        subject.run.folder.log(f"report: {LEFT_OUT.format(path=subject.maps / ABOVE)}")
        return None
    if len(table) < 2:
        return None
    return AboveCurve(
        thresholds=table["threshold"].tolist(),
        above=table["above"].tolist(),
        lower=table["above_lower"].tolist(),
        upper=table["above_upper"].tolist(),
        everybody=float(table["all"].iloc[0]),
        start=start_of(table, subject.run.settings.maps.threshold),
        counted=subject.prepared.exposure,  # type: ignore[arg-type]
        units="" if subject.units.is_relative else subject.units.rate,
        response=subject.response,
        notes=list(_notes(subject, judgement)),
    )


def start_of(table: pd.DataFrame, threshold: float | None) -> float:
    """The threshold of the run, or else the one nearest to the mean rate of people, rounded.

    That is the area under the curve of the share of people above each threshold.
    """
    thresholds, share = table["threshold"].to_numpy(), (table["above"] / table["all"]).to_numpy()
    if threshold is None:
        mean = thresholds[0] + np.sum(np.diff(thresholds) * (share[1:] + share[:-1]) / 2)
        threshold = rounded(float(mean))
    return float(thresholds[np.argmin(np.abs(thresholds - threshold))])


def _notes(subject: Subject, judgement: Judgement) -> Iterator[str]:
    """What to know of the numbers: first how far to trust them."""
    say, run = subject.say, subject.run
    key = judgement.word.replace(" ", "_")
    if key != "yes":
        yield say(f"above.map_{key}")
    yield say("above.interval", level=numerals.level(run.settings.maps.level))
    if run.settings.maps.threshold is not None:
        yield say("above.where", threshold=numerals.given(run.settings.maps.threshold))
    if subject.prepared.is_shared:
        yield say("above.shared")
    if not subject.units.has_counts:
        yield say("above.trials", trials=run.settings.model.trials or subject.units.exposed)
    if run.settings.maps.match_totals:
        yield say("above.matched")
    states = set(states_in(subject.table)) - {OBSERVED}
    if states & {MISSING, SUPPRESSED}:
        yield say("above.gaps")
