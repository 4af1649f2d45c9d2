"""What a user should know of a fit besides its convergence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vbagg.bags import BagTable
from vbagg.kernels import Kernel, White
from vbagg.likelihoods.base import Likelihood
from vbagg.numerals import count, rate

EXACT = 1000.0
"""Median count from which a Poisson's noise is less than about 3% of it."""
ALIKE = 0.3
"""Sd of the logarithm of effective sizes below which bags are alike."""


def notes_on_data(
    likelihood: Likelihood, components: tuple[Kernel, ...], bags: BagTable, y: np.ndarray, learnt: dict[str, float]
) -> Iterator[str]:
    """Sentences about what the data cannot tell, or the model should not claim."""
    has_effect = likelihood.effect_spread(learnt) > 0
    if likelihood.counts and not likelihood.needs_trials and not has_effect:
        yield from claim_of_exactness(y, likelihood.name)
    if has_effect and any(isinstance(component, White) for component in components):
        sizes = bags.effective_sizes()
        if np.log(sizes).std() < ALIKE:
            yield (
                "The effect of single individuals and that of whole bags cannot be told apart, since all bags have"
                f" about the same effective size ({rate(np.median(sizes))} individuals): their sum is learnt, and how"
                " it is split follows the priors."
            )


def claim_of_exactness(y: np.ndarray, name: str) -> Iterator[str]:
    """Counts so large that a Poisson leaves next to nothing to chance."""
    typical = float(np.median(y))
    if typical >= EXACT:
        yield (
            f"With counts of about {count(typical)}, likelihood {name!r} takes each for exact to"
            f" {100 / np.sqrt(typical):.1f}%, which real counts seldom are. 'negative_binomial' learns how much bags"
            " vary on their own."
        )
