"""All that maps and tables of a model will ask, answered piece by piece: one pass over the pixels serves them all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vbagg.geo.above import PeopleAbove
from vbagg.geo.aggregate import lay_areas
from vbagg.geo.answers import Question, ask
from vbagg.geo.cell_rates import CellRates
from vbagg.geo.maps import contents_of
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared
from vbagg.geo.totals import FittedTotals
from vbagg.progress import Report


def predict_ahead(
    model: Any,
    prepared: Prepared,
    others: Sequence[Polygons],
    above: PeopleAbove,
    *,
    response: str,
    level: float,
    quantiles: Sequence[float],
    threshold: float | None,
    per: float,
    trials: str | None,
    keep: Path,
    client: Any,
    report: Report,
) -> None:
    """Put into `keep` what all that is made of pieces will look for there, if called alike.

    That is `people_above`, `write_maps`, `polygon_table` and `aggregate`. A table of one piece does not need it: it
    stays in memory, and the model keeps what it found. Draws come first, since their pass finds what the others need.
    """
    contents = contents_of(model, prepared, response, level, quantiles, threshold, per)
    rates = CellRates(contents, prepared.is_shared)
    questions: list[Question] = [above, rates, FittedTotals.of(prepared, response, level, per, trials, threshold)]
    keep.mkdir(parents=True, exist_ok=True)
    with ExitStack() as scratch:
        if hasattr(model, "area_sums"):
            for polygons in others:
                place = Path(scratch.enter_context(TemporaryDirectory(dir=keep)))
                questions.append(lay_areas(prepared, polygons, place).parts(prepared.polygons.labels))
        ask(model, prepared.pieces, questions, keep, keep=True, client=client, report=report)
