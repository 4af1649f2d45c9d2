"""Recovery in a run: refits to totals that are simulated from the model of a response."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vbagg.geo.units import usual_per
from vbagg.workflow.run import Run

if TYPE_CHECKING:
    from vbagg.geo.prepared import Prepared
    from vbagg.validate import Recovery

TEXTS = {
    "no_model": "recovery left out, since the fitted model cannot be used: {reason}. `vbagg fit` makes it",
    "distant": "recovery left out, since no process can hold all pixels",
    "begins": "{response}: refit {number} of {of}",
    "ended": "{response}: refit {number}, {how}",
    "kept": "was finished before",
    "seconds": "{seconds:.1f} s",
}
"""What is told while it is at work."""


def recover(run: Run, prepared: Prepared, response: str, bags: Any, trials: Any, share: float) -> Recovery:
    """What the model of a response recovers; a `share` of the stage is done before."""
    from vbagg.validate import recovery

    name, stage = run.file_name(response), "validation"
    found = recovery(
        run.model(response),
        bags,
        prepared.y(response),
        trials,
        progress=_by_refit(run, response, stage, share),
        refits=run.settings.validation.recovery,
        seed=run.settings.model.seed,
        per=usual_per(prepared.exposure, run.settings.maps.per),
        keep=run.folder.kept(stage) / name,
        client=run.client,
        upper=prepared.upper(response),
        **prepared.reporting(),
    )
    for sentence in found.sentences("polygons", "cells"):
        run.folder.log(f"{stage}: {response}: {sentence}")
    return found


def _by_refit(run: Run, response: str, stage: str, share: float) -> Callable[[dict[str, Any]], None]:
    """Tell of refits that begin, and of those that are finished."""

    def report(entry: dict[str, Any]) -> None:
        done = share + (1 - share) * entry["done"] / entry["of"]
        if "finished" not in entry:
            run.tell(TEXTS["begins"].format(response=response, number=entry["refit"], of=entry["of"]), done)
            return
        how = TEXTS["kept"] if entry.get("kept") else TEXTS["seconds"].format(**entry)
        text = TEXTS["ended"].format(response=response, number=entry["finished"], how=how)
        run.folder.log(f"{stage}: {text}")
        run.step(text)

    return report
