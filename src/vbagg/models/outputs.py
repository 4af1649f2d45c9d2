"""Outputs as a user gives them: one for each bag, with bounds where it is hidden and gaps where nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbagg.inputs import some_bags
from vbagg.labelled import Labelled
from vbagg.likelihoods.base import Likelihood

FEWEST = 2
"""Observed bags that a fit needs."""


@dataclass(frozen=True)
class GivenOutputs:
    """Checked outputs of bags in label order, NaN where there are none."""

    labels: np.ndarray
    y: np.ndarray
    """Outputs, or their least possible values."""
    upper: np.ndarray
    """Their largest possible values; those of `y` where outputs are known."""
    trials: np.ndarray | None

    @property
    def seen(self) -> np.ndarray:
        """(b) whether anything is known of the output."""
        return np.isfinite(self.y)

    @property
    def hidden(self) -> np.ndarray:
        """(b) whether only bounds of it are known."""
        return self.upper > self.y

    @property
    def typical(self) -> np.ndarray:
        """Outputs, or numbers within their bounds to start from: the middle, or half as much again as a lower bound."""
        middle = (self.y + np.where(np.isfinite(self.upper), self.upper, self.y + np.abs(self.y))) / 2
        return np.where(self.hidden, middle, self.y)

    def observed(self) -> GivenOutputs:
        """Those of which something is known."""
        seen = self.seen
        if seen.all():
            return self
        trials = None if self.trials is None else self.trials[seen]
        return GivenOutputs(self.labels[seen], self.y[seen], self.upper[seen], trials)

    @property
    def trials_for_all(self) -> np.ndarray | None:
        """Trials that are numbers also where neither they nor the output are known."""
        return None if self.trials is None else np.where(self.seen | np.isfinite(self.trials), self.trials, 1.0)

    def require(self, fewest: int) -> None:
        """Refuse to learn from less."""
        number = int(self.seen.sum())
        if number < fewest:
            wanted = "the output of at least one bag" if fewest == 1 else f"the outputs of at least {fewest} bags"
            raise ValueError(
                f"`y` must hold {wanted}; got {number or 'none'} for {len(self.y)} bags, the others are missing."
                " Give those that were observed, or bags whose outputs were."
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of gaps and bounds."""
        found, missing, hidden = [], self.labels[~self.seen], self.labels[self.hidden]
        if len(missing):
            has, it = ("has", "it is") if len(missing) == 1 else ("have", "they are")
            found.append(
                f"{len(missing)} of {len(self.y)} bags {has} no output ({some_bags(missing)}): {it} left out of the"
                " fit, and predicted as any new bag."
            )
        if len(hidden):
            found.append(f"Of {len(hidden)} of {len(self.y)} bags only bounds are known ({some_bags(hidden)}).")
        return tuple(found)


def aligned_outputs(bags: Labelled, y: Any, trials: Any, upper: Any = None) -> GivenOutputs:
    """Outputs, bounds and trials in label order; trials may be missing where outputs are."""
    values = bags.align(y, "y", gaps=True, remedy="Give NaN for bags without an output.")
    ends = values if upper is None else _aligned_upper(bags, values, upper)
    n_trials = None if trials is None else bags.align(trials, "trials", gaps=True)
    outputs = GivenOutputs(bags.labels, values, ends, n_trials)
    known = outputs.observed()
    if known.trials is not None and np.isnan(known.trials).any():
        raise ValueError(
            f"`trials` must be finite; got nan for {some_bags(known.labels[np.isnan(known.trials)])}, whose outputs are"
            " known. Give the number examined, or NaN for `y` too."
        )
    return outputs


def _aligned_upper(bags: Labelled, y: np.ndarray, upper: Any) -> np.ndarray:
    remedy = "Give inf where there is no upper bound, and NaN where `y` is the output itself."
    ends = bags.align(upper, "upper", gaps=True, infinite=True, remedy=remedy)
    ends = np.where(np.isnan(ends), y, ends)
    alone = np.isnan(y) & ~np.isnan(ends)
    if alone.any():
        raise ValueError(
            f"`y` must hold the lower bound where `upper` is given; got nan for {some_bags(bags.labels[alone])}. Give"
            " the least that is possible, such as 0, or NaN for both."
        )
    crossed = np.flatnonzero(ends < y)
    if len(crossed):
        at = crossed[0]
        raise ValueError(
            f"`upper` must not be less than `y`; got {ends[at]:g} and {y[at]:g} for bag {bags.labels[at]!r}"
            f" ({len(crossed)} such bags). Exchange them, or give NaN for `upper` where `y` is the output."
        )
    return ends


def given_outputs(bags: Labelled, y: Any, trials: Any, likelihood: Likelihood, upper: Any = None) -> GivenOutputs:
    """The same, refused if the likelihood cannot have produced them; bounds that say nothing are gaps."""
    likelihood.check_trials(trials)
    outputs = aligned_outputs(bags, y, trials, upper)
    known = outputs.observed()
    hidden = known.hidden
    if hidden.any():
        if likelihood.counts:
            _require_whole(known, hidden)
        least, largest = likelihood.support({} if known.trials is None else {"trials": known.trials})
        silent = hidden & (known.y <= least) & (known.upper >= largest)
        if silent.any():
            values = outputs.y.copy()
            values[np.flatnonzero(outputs.seen)[silent]] = np.nan
            outputs = replace(outputs, y=values, upper=np.where(np.isnan(values), np.nan, outputs.upper))
            known = outputs.observed()
    likelihood.check_outputs(known.y, known.labels, known.trials)
    return outputs


def _require_whole(known: GivenOutputs, hidden: np.ndarray) -> None:
    ends = np.stack([known.y, known.upper])
    broken = np.flatnonzero(hidden & np.any(np.isfinite(ends) & (ends != np.round(ends)), axis=0))
    if len(broken):
        at = broken[0]
        raise ValueError(
            f"Bounds of a count must be whole numbers; got {known.y[at]:g} to {known.upper[at]:g} for bag"
            f" {known.labels[at]!r} ({len(broken)} such bags). Round them."
        )
