"""Outputs as a user gives them: one for each bag, with gaps where nothing was observed."""

from __future__ import annotations

from dataclasses import dataclass
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
    trials: np.ndarray | None

    @property
    def seen(self) -> np.ndarray:
        """(b) whether the output is known."""
        return np.isfinite(self.y)

    def observed(self) -> GivenOutputs:
        """Those that are known."""
        seen = self.seen
        return self if seen.all() else GivenOutputs(self.labels[seen], self.y[seen], _at(self.trials, seen))

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
        """What a user should know of the gaps."""
        missing = self.labels[~self.seen]
        if not len(missing):
            return ()
        has, it = ("has", "it is") if len(missing) == 1 else ("have", "they are")
        return (
            f"{len(missing)} of {len(self.y)} bags {has} no output ({some_bags(missing)}): {it} left out of the fit,"
            " and predicted as any new bag.",
        )


def aligned_outputs(bags: Labelled, y: Any, trials: Any) -> GivenOutputs:
    """Outputs and trials in label order; trials may be missing where outputs are."""
    values = bags.align(y, "y", gaps=True, remedy="Give NaN for bags without an output.")
    outputs = GivenOutputs(bags.labels, values, None if trials is None else bags.align(trials, "trials", gaps=True))
    known = outputs.observed()
    if known.trials is not None and np.isnan(known.trials).any():
        raise ValueError(
            f"`trials` must be finite; got nan for {some_bags(known.labels[np.isnan(known.trials)])}, whose outputs are"
            " known. Give the number examined, or NaN for `y` too."
        )
    return outputs


def given_outputs(bags: Labelled, y: Any, trials: Any, likelihood: Likelihood) -> GivenOutputs:
    """The same, refused if the likelihood cannot have produced them."""
    likelihood.check_trials(trials)
    outputs = aligned_outputs(bags, y, trials)
    known = outputs.observed()
    likelihood.check_outputs(known.y, known.labels, known.trials)
    return outputs


def _at(values: np.ndarray | None, chosen: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[chosen]
