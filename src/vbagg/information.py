"""How much of what may vary inside each bag the data have settled: MATH (27).

Bags are observed as totals, so that a total says nothing of which of its individuals have high rates. What is learnt of
that comes from covariates, from the place, and from other bags. On the scale of `f`, individual `i` of bag `a` is
`d_i = f_i - sum_j w_j f_j / sum_j w_j` above its bag. The information about it is the share of the variance of `d_i`
before any output was seen that is gone afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vbagg.conditioning import BagState, Moments, Within

NOTHING = 1e-6
"""Variance of `f`, in units of what is usual with a link, by which individuals of a bag do not differ."""
ALONE = 1 - 1e-9
"""Share of a bag's weight from which an individual is all of the bag."""
LEAST = 1e-12
"""Variance about its bag's mean of an individual that is all of the bag, which has none."""


@dataclass(frozen=True)
class Spreads:
    """Variances (n) of what `f` of each individual is above the weighted mean of its bag."""

    prior: np.ndarray
    posterior: np.ndarray


@dataclass(frozen=True)
class Shares:
    """Bags of rows (n), and the share of each row in the weight of its bag."""

    bag: np.ndarray
    share: np.ndarray
    n_bags: int

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Weighted mean (b) of each bag."""
        return np.bincount(self.bag, self.share * values, self.n_bags)

    @cached_property
    def varied(self) -> np.ndarray:
        """Variance (n) of `z_i - sum_j u_j z_j`, where each `z_i` has variance one about the mean of its bag.

        That is how the effect of a bag varies inside it. It is below one for an individual that is most of its bag.
        """
        u, squares = self.share, self.mean(self.share)[self.bag]
        # z_i = (e_i - sum_j u_j e_j) / s_i of independent e
        t = 1 / np.sqrt(np.maximum(1 - 2 * u + squares, LEAST))
        alpha = self.mean(t)[self.bag] - t
        others = alpha**2 * squares - 2 * alpha * self.mean(u * t)[self.bag] + self.mean(u * t**2)[self.bag]
        return np.asarray(others + 2 * u * (alpha - t) * t + t**2)

    def apart(self, values: np.ndarray) -> np.ndarray:
        """What each row is above the mean of its bag."""
        return np.asarray(values - self.mean(values)[self.bag])


def spreads_in_bags(found: Moments, state: BagState, within: Within, gain: np.ndarray, of_bags: Shares) -> Spreads:
    """By one set of parameters, before and after learning; `gain` is the regression of individuals on `h`.

    The variation of a bag's effect inside the bag is part of both: no output says anything of it.
    """
    rows, bag = found.rows, of_bags.bag
    lost, tau, kappa = (1 - state.kept)[bag], state.tau[bag], state.kappa[bag]
    gain, shape, with_weights = (of_bags.apart(values) for values in (gain, rows["shape"], rows["with_weights"]))
    unexplained = rows["apart_residual"] + shape**2 * state.effect[bag]
    # the regression cannot explain more than there is
    left = unexplained - np.minimum(gain**2 * tau, unexplained) * lost
    by_weights = rows["apart_weights"] - 2 * gain * lost * with_weights + (gain * lost) ** 2 * kappa
    varied = of_bags.varied * within.sd**2
    return Spreads(rows["apart_prior"] + unexplained + varied, np.maximum(by_weights, 0.0) + left + varied)


@dataclass(frozen=True, eq=False)
class Information:
    """How much of what may vary inside each bag the data have settled, from 0 (nothing) to 1 (all).

    Attributes
    ----------
    labels
        Of the bags.
    bag, weight
        Bag of each individual, as its number, and weight (n), in the order of `bags.X`.
    prior, posterior
        Variances (n) of what `f` of each individual is above the weighted mean of its bag, before and after learning.
    nothing
        Variance that is none.
    """

    labels: np.ndarray
    bag: np.ndarray
    weight: np.ndarray
    prior: np.ndarray
    posterior: np.ndarray
    nothing: float

    @property
    def individuals(self) -> np.ndarray:
        """Share (n) of each individual.

        NaN where an individual is all of its bag, and 0 where the model sees no difference between individuals. Where
        an individual is less certain than before, as outputs far from what was expected can make it, it is 0 too.
        """
        return np.where(self._alone, np.nan, self._share(self.prior, self.posterior))

    @property
    def bags(self) -> np.ndarray:
        """Share (b) of each bag: of the sum over its individuals of weight times variance."""
        n = len(self.labels)
        prior, posterior, weight = (
            np.bincount(self.bag, self.weight * values, n) for values in (self.prior, self.posterior, 1.0)
        )
        alone = np.bincount(self.bag, self._alone, n) > 0
        return np.where(alone, np.nan, self._share(prior / weight, posterior / weight))

    @property
    def overall(self) -> float:
        """The same of all bags together; NaN if each is a single individual."""
        prior, posterior = (np.average(values, weights=self.weight) for values in (self.prior, self.posterior))
        return float("nan") if np.isnan(self.bags).all() else float(self._share(prior, posterior))

    @property
    def _alone(self) -> np.ndarray:
        return self.weight >= ALONE * np.bincount(self.bag, self.weight, len(self.labels))[self.bag]

    def _share(self, prior: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        some = prior > self.nothing
        return np.where(some, np.clip(1 - posterior / np.where(some, prior, 1.0), 0.0, 1.0), 0.0)

    def __repr__(self) -> str:
        return f"Information({len(self.labels)} bags, {self.overall:.0%} of what may vary inside them)"
