"""Simulate from a fitted model on the user's own geometry, refit, and compare with the truth that is known then.

A truth is a joint draw of the rates of all individuals from the posterior. Outputs follow from its totals by the
likelihood, and are missing or hidden where the user's are. A clone of the model is fitted to them, from the parameters
of the model on (`VBAgg.fit(start=...)`), and its estimates are compared with the truth. That tells what such data can
show of rates inside bags if the model is right, and nothing of whether it is.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg import __version__, io
from vbagg.bags import Bags
from vbagg.errors import ConvergenceWarning, DataWarning
from vbagg.held import itself
from vbagg.inference import Newton, get_inference
from vbagg.inputs import some_bags
from vbagg.likelihoods import get_likelihood
from vbagg.models.frame import check_is_bags
from vbagg.models.outputs import FEWEST, GivenOutputs, given_outputs
from vbagg.models.reporting import aligned_told
from vbagg.models.vbagg import VBAgg
from vbagg.progress import Report, reporting
from vbagg.validate.bag_scores import LEVELS
from vbagg.validate.content import content
from vbagg.validate.inside import squares_inside
from vbagg.validate.kept import Kept
from vbagg.validate.recovered import (
    DIFFERENCES,
    DIFFERENCES_LEFT,
    INSIDE,
    MEASURES,
    OF_MEANS,
    OF_OUTPUTS,
    SCORES,
    UNEXPLAINED,
    Recovery,
    Refit,
    rounded,
)

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
REFITS = 5
MOST_ROWS = 100_000
"""Individuals that are scored, unless a single bag has more. Few bags may have most of what varies, so that scoring
some of them is for data with very many."""
FEW_STEPS = 12
"""Of the search in a refit."""
NOTES = {
    "also": "Refits see the totals alone, not the further observations that the model learnt from.",
    "some": "Scores are those of {number:,} of {bags:,} bags, of all sizes alike.",
    "missing": "{number} bags without an output are without one in refits too, and not scored.",
    "hidden": (
        "Simulated outputs within the bounds that hide outputs of the data are hidden by them too, and not scored."
    ),
    "converged": "{number} of {refits} refits had not quite converged after {steps} steps.",
}
"""What is said of how it was done."""


def recovery(
    model: VBAgg,
    bags: Bags,
    y: Any,
    trials: Any = None,
    offset: Any = None,
    progress: bool | Report | None = None,
    *,
    refits: int = REFITS,
    seed: int = 0,
    per: float = 1.0,
    keep: str | os.PathLike[str] | None = None,
    client: Any = None,
    upper: Any = None,
    completeness: Any = None,
    weight_sd: Any = None,
) -> Recovery:
    """Tell how much of what varies inside bags a model recovers, and how well intervals hold, where it is right.

    Parameters
    ----------
    model
        A fitted `VBAgg`. Refits begin at its parameters, and search with representatives of large bags alone.
    bags, y, trials, offset, upper, completeness, weight_sd
        What it was fitted to. Bags without an output are without one in refits too. Where `upper` hides an output, a
        simulated one within the same bounds is hidden; if all hidden ones have the same bounds, any bag's is. Bags
        whose outputs are missing or hidden are not scored. Further observations of the fit (`also`) are left out.
    progress
        None, True, False or a function of one dict per refit that begins, `refit`, `done`, `of`, and of one per
        finished refit: `finished`, `done`, `of` and `seconds`, or `kept` if it was finished before.
    refits
        How many.
    seed
        Of the truths. A refit's depends on its number and the seed, and not on how many there are.
    per
        Scores are those of rates per so many units of weight.
    keep
        Folder for finished refits. Those that it holds of the same model and data are taken.
    client
        A `distributed.Client` of Dask, whose workers each carry out one refit at a time.

    Returns
    -------
    Recovery
        A refit that fails is in its `failures`.
    """
    task = _check(model, bags, y, trials, offset, upper, completeness, weight_sd, refits, seed)
    numbers, results = range(1, refits + 1), dict[int, Refit]()
    kept = None if keep is None else Kept(Path(keep), Refit, "refit")
    rests_on = "" if kept is None else task.digest()
    with reporting(progress, "recovery") as report:
        for number in numbers:
            result = None if kept is None else kept.get(number, rests_on)
            if result is not None:
                results[number] = result
                report({"finished": number, "done": len(results), "of": refits, "kept": True})
        waiting = [number for number in numbers if number not in results]
        for number, result in _carried_out(task, waiting, client, report, refits):
            results[number] = result
            if kept is not None and not result.failure:
                kept.put(number, result, rests_on)
            report({"finished": number, "done": len(results), "of": refits, "seconds": result.seconds})
    made = tuple(results[number] for number in numbers)
    return Recovery(made, per, (*task.notes(), *_on_convergence(made)))


def _carried_out(task: Task, numbers: list[int], client: Any, report: Report, of: int) -> Iterator[tuple[int, Refit]]:
    """Refits, in the order in which they end."""
    if client is None or not numbers:
        for number in numbers:
            report({"refit": number, "done": of - len(numbers) + numbers.index(number), "of": of})
            yield number, task.refit(number)
        return
    from vbagg.cluster import workers_of

    yield from workers_of(client).hold([task]).made(itself).ended(Task.refit, numbers)


def _on_convergence(refits: tuple[Refit, ...]) -> list[str]:
    number = sum(not refit.converged for refit in refits)
    told = {"number": number, "refits": len(refits), "steps": FEW_STEPS}
    return [NOTES["converged"].format(**told)] if number else []


@dataclass(frozen=True, eq=False)
class Task:
    """Checked inputs of a recovery, all in the order of the stored bags and rows."""

    model: VBAgg
    bags: Bags
    outputs: GivenOutputs
    offset: Any
    told: dict[str, Floats]
    seed: int

    def refit(self, number: int) -> Refit:
        """Draw a truth, simulate outputs, fit to them and score."""
        import pandas as pd

        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", DataWarning)
                table, converged = self._refitted(number)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return Refit(number, pd.DataFrame(), time.perf_counter() - started, reason, False)
        return Refit(number, table, time.perf_counter() - started, "", converged)

    def digest(self) -> str:
        """Tells model and data, on which results rest, from any others."""
        bags, outputs = self.bags, self.outputs
        given = (
            outputs.y,
            outputs.upper,
            outputs.trials,
            self.offset,
            *(self.told[name] for name in sorted(self.told)),
        )
        parts = [__version__, MEASURES, io.digest(self.model), self.seed, sorted(self.told), *map(content, given)]
        parts += [content(values) for values in (bags.labels, bags.bag, bags.X, bags.weight)]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def notes(self) -> list[str]:
        """How it is done with these data."""
        missing, scored, of = int((~self.outputs.seen).sum()), len(self.scored), len(self.bags)
        found = {
            "also": ({}, bool(self.model.observations_)),
            "some": ({"number": scored, "bags": of - missing}, scored < of - missing),
            "missing": ({"number": missing}, missing > 0),
            "hidden": ({}, bool(self.outputs.hidden.any())),
        }
        return [NOTES[name].format(**told) for name, (told, so) in found.items() if so]

    @cached_property
    def scored(self) -> NDArray[np.intp]:
        """Bags whose individuals are compared with the truth."""
        seen = np.flatnonzero(self.outputs.seen)
        return seen[some_of(self.bags.sizes[seen])]

    def _refitted(self, number: int) -> tuple[pd.DataFrame, bool]:
        from sklearn.base import clone

        outputs, own = self.outputs, {"offset": self.offset, **self.told}
        seed = int(np.random.default_rng([self.seed, number]).integers(2**31))
        drawn = self.model.simulate(self.bags, trials=outputs.trials_for_all, seed=seed, **own)
        rates, simulated = drawn.rates[0], hidden_alike(drawn.outputs[0], outputs)
        fresh = clone(self.model).set_params(inference=_quick(self.model.inference))
        fresh.fit(
            self.bags,
            simulated.y,
            outputs.trials,
            progress=False,
            upper=simulated.upper if simulated.hidden.any() else None,
            start=self.model,
            **own,
        )
        table = self._table(fresh, rates, simulated.y)
        return table[~simulated.hidden[self.scored]].reset_index(drop=True), bool(fresh.status_.converged)

    def _table(self, fresh: VBAgg, rates: Floats, y: Floats) -> pd.DataFrame:
        """Sums and means over the individuals of bags that are scored, by the truth and a fitted model."""
        import pandas as pd

        chosen = self.scored
        bags, rows = self.bags[chosen], np.isin(self.bags.bag, chosen)
        offset = None if self.offset is None else self.bags.align_rows(self.offset, "offset")[rows]
        law, truth, weight, whole = fresh.posterior(bags, offset).law, rates[rows], bags.weight, bags.totals()
        likelihood, trials = get_likelihood(self.model.likelihood), self.outputs.trials
        exposure = likelihood.exposure(bags, None if trials is None else trials[chosen])
        by_output = y[chosen] / (exposure * self.told.get("completeness", np.ones(len(y)))[chosen])
        by_mean = bags.sum_by_bag(weight * truth) / whole
        estimates = {UNEXPLAINED: law.mean, OF_OUTPUTS: by_output[bags.bag], OF_MEANS: by_mean[bags.bag]}
        columns = {name: bags.sum_by_bag(weight * (rate - truth) ** 2) for name, rate in estimates.items()}
        columns[DIFFERENCES_LEFT], columns[DIFFERENCES] = squares_inside(fresh, law, truth, bags)
        for level, inside, score in zip(LEVELS, INSIDE, SCORES, strict=True):
            low, high = law.interval(level)
            beyond = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
            columns[inside] = bags.sum_by_bag(weight * (beyond == 0)) / whole
            columns[score] = bags.sum_by_bag(weight * (high - low + 2 / (1 - level) * beyond)) / whole
        kept = {name: rounded(values) for name, values in columns.items()}
        return pd.DataFrame({"bag": bags.labels.tolist(), "weight": rounded(whole), **kept})


def _quick(inference: Any) -> Newton:
    """Few steps with representatives alone."""
    known = get_inference(inference)
    newton = known if isinstance(known, Newton) else Newton()
    return replace(newton, rough=True, max_iterations=min(newton.max_iterations, FEW_STEPS))


def some_of(sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Bags that are scored, in order: all, or every so many in the order of their sizes, which all have a say."""
    step = -(-int(sizes.sum()) // MOST_ROWS)
    return np.sort(np.argsort(sizes, kind="stable")[min(step // 2, len(sizes) - 1) :: step])


def hidden_alike(drawn: Floats, outputs: GivenOutputs) -> GivenOutputs:
    """Drawn outputs, missing where the given ones are, and hidden within the bounds that hide those.

    Bounds of a bag are its own. Where all hidden outputs have the same, they are a rule for all bags.
    """
    hidden = outputs.hidden
    lower, upper = outputs.y.copy(), outputs.upper.copy()
    bounds = np.unique(np.stack([lower[hidden], upper[hidden]]), axis=1)
    asked = hidden
    if bounds.shape[1] == 1:
        lower[:], upper[:], asked = bounds[0, 0], bounds[1, 0], outputs.seen
    inside = asked & (lower <= drawn) & (drawn <= upper)
    y = np.where(outputs.seen, np.where(inside, lower, drawn), np.nan)
    return replace(outputs, y=y, upper=np.where(inside, upper, y))


def _check(
    model: Any,
    bags: Any,
    y: Any,
    trials: Any,
    offset: Any,
    upper: Any,
    completeness: Any,
    weight_sd: Any,
    refits: int,
    seed: int,
) -> Task:
    if not isinstance(model, VBAgg):
        raise TypeError(f"`model` must be a fitted vbagg.VBAgg; got {type(model).__name__}.")
    if isinstance(refits, bool) or not isinstance(refits, int | np.integer) or refits < 1:
        raise ValueError(f"`refits` must be a whole number of at least 1; got {refits!r}.")
    check_is_bags(bags)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the fit has warned of them
        outputs = given_outputs(bags, y, trials, get_likelihood(model.likelihood), upper)
    outputs.require(FEWEST)
    told = aligned_told(bags, completeness, weight_sd, outputs.seen)
    unknown = outputs.seen & ~model.knows(bags, offset)
    if unknown.any():
        raise ValueError(
            f"`bags` must be those that the model was fitted to; {some_bags(bags.labels[unknown])} was not among them."
            " Fit it to them, or give NaN for their outputs."
        )
    return Task(model, bags, outputs, offset, told, int(seed))
