"""How far the output of each bag is above what covariates and neighbours say, and how odd that is.

The effect of a bag is its total over what the weights make of it, MATH (24): its residual, and its own effect where
the likelihood has one. The output takes part in both, so that an odd one draws the map towards itself. Whether it is
odd is asked of the outputs of the other bags alone, MATH (25).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri, stdtr

from vbagg.conditioning import BagState
from vbagg.laws import Law
from vbagg.links import Link

if TYPE_CHECKING:
    import pandas as pd

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()
BULK, EFFICIENCY = (0.1, 0.9), 0.65
"""Quantiles whose distance tells the spread of scores, and how much of what all scores tell of it."""
FEWEST, MOST_SPREAD = 20, 2.0
"""Outputs of which the spread is asked, and how far from one it is taken to be."""
FALSE_ALARMS = 0.1
"""Share of the bags that stand out that may do so by chance."""


def effect_law(link: Link, state: BagState) -> Law:
    """Distribution of the effects of bags given their outputs, MATH (24), by the moments of the total given `eta`."""
    z = NODES[:, None]
    eta, shift = state.eta + np.sqrt(state.kappa) * z, state.kept * np.sqrt(state.kappa) * z
    with jax.enable_x64(True):
        expected = np.asarray(link.mean(jnp.asarray(eta), jnp.asarray(np.broadcast_to(state.tau, eta.shape))))
    sd = np.broadcast_to(np.sqrt(state.variance), eta.shape)
    given = link.rate_law((state.mean + shift).ravel(), sd.ravel())
    mean, sd = link.compared(given.mean.reshape(eta.shape), given.std.reshape(eta.shape), expected)
    average = NODE_WEIGHTS @ mean
    return link.effect_law.from_moments(average, NODE_WEIGHTS @ (sd**2 + (mean - average) ** 2))


@dataclass(frozen=True)
class Tails:
    """Where outputs lie in the distributions that others give them (b); NaN without an output."""

    at_most: np.ndarray
    """Probability of as much or less; of outputs within bounds, of the upper one."""
    at_least: np.ndarray
    """Probability of as much or more; of outputs within bounds, of the lower one."""

    @classmethod
    def of(cls, law: Law, lower: np.ndarray, upper: np.ndarray) -> Tails:
        """Of outputs between two bounds, the same where they are known; a count between whole numbers is either."""
        if law.discrete:
            lower, upper = np.floor(lower), np.ceil(upper)
        return cls(law.cdf(upper), law.exceedance(lower - 1 if law.discrete else lower))

    @property
    def spread(self) -> float:
        """Sd of the normal scores of the bulk of outputs: 1 if they vary as is expected of them.

        Odd outputs make a model expect more variation than there is, and hide behind it. The middle of the others tells
        how much less there is (B. Efron's empirical null, 2004). Scores are spread evenly over the steps of counts.
        """
        low, high = 1 - self.at_least[self.seen], self.at_most[self.seen]
        if len(low) < FEWEST:
            return 1.0
        levels = np.linspace(0.0, 1.0, 2001)[1:-1]
        share = np.mean(np.clip((levels[:, None] - low) / np.maximum(high - low, 1e-12), 0.0, 1.0), axis=1)
        ends = ndtri([np.interp(end, share, levels) for end in BULK])
        return float(np.clip((ends[1] - ends[0]) / (ndtri(BULK[1]) - ndtri(BULK[0])), 1 / MOST_SPREAD, MOST_SPREAD))

    @property
    def chance(self) -> np.ndarray:
        """Probability, doubled, of outputs at least as far out on their side, MATH (25)."""
        tail = np.minimum(self.at_most, self.at_least)
        n = int(self.seen.sum())
        if n >= FEWEST:
            # the spread is estimated, as well as by so many outputs
            tail = stdtr(EFFICIENCY * n, np.minimum(ndtri(tail), 0.0) / self.spread)
        return np.minimum(2 * tail, 1.0)

    @property
    def seen(self) -> np.ndarray:
        """(b) whether anything is known of the output."""
        return np.isfinite(self.at_most)


def stand_out(chance: np.ndarray, false_alarms: float = FALSE_ALARMS) -> np.ndarray:
    """Which bags stand out: of them the share `false_alarms` is expected to do so by chance (Benjamini and Hochberg).

    Those whose `chance` is NaN never do.
    """
    if not 0 < false_alarms < 1:
        raise ValueError(f"`false_alarms` must lie strictly between 0 and 1; got {false_alarms!r}. Give 0.1 for 10%.")
    asked = np.isfinite(chance)
    ordered = np.sort(chance[asked])
    passed = np.flatnonzero(ordered <= false_alarms * np.arange(1, len(ordered) + 1) / max(len(ordered), 1))
    limit = ordered[passed[-1]] if len(passed) else -1.0
    return asked & (np.where(asked, chance, np.inf) <= limit)


@dataclass(frozen=True, eq=False)
class BagEffects:
    """Effects of bags, and what the others say of their outputs; arrays and rows of laws (b).

    Attributes
    ----------
    labels
        Of the bags.
    effect
        How many times its total each bag has is what covariates and neighbours give (by how much it is above that, with
        the identity link): a distribution with `mean`, `quantile`, `interval`, `exceedance`. Of bags without an output
        it is the prior.
    from_others
        Distribution of a new output of each bag, by the outputs of all other bags.
    tails
        Where the outputs lie in these distributions.
    no_effect
        The effect of a bag whose total is as expected: 1, or 0 where effects are differences.
    """

    labels: np.ndarray
    effect: Law
    from_others: Law
    tails: Tails
    no_effect: float

    @property
    def seen(self) -> np.ndarray:
        """(b) whether anything is known of the output."""
        return self.tails.seen

    @property
    def chance(self) -> np.ndarray:
        """Probability by the others, doubled, of an output at least as far out on the side of the one observed (b).

        Small where a report is odd; NaN without an output. Where only bounds are known it is that of the likeliest in
        between. From twenty outputs on, how much these vary is judged by the middle of those asked for.
        """
        return self.tails.chance

    def stands_out(self, false_alarms: float = FALSE_ALARMS) -> np.ndarray:
        """Which bags have odd outputs; of those, the share `false_alarms` is expected to be there by chance."""
        return stand_out(self.chance, false_alarms)

    def columns(self, level: float = 0.95) -> dict[str, np.ndarray]:
        """`effect` and `from_others` with intervals, `effect_above` and `chance`; NaN for effects of unseen bags."""
        low, high = (1 - level) / 2, (1 + level) / 2
        effect = np.where(self.seen, self.effect.quantile([0.5, low, high]), np.nan)
        above = np.where(self.seen, self.effect.exceedance(self.no_effect), np.nan)
        others = self.from_others.quantile([0.5, low, high])
        names = ("", "_lower", "_upper")
        return {
            **{f"effect{name}": values for name, values in zip(names, effect, strict=True)},
            "effect_above": above,
            **{f"from_others{name}": values for name, values in zip(names, others, strict=True)},
            "chance": self.chance,
        }

    def table(self, level: float = 0.95, false_alarms: float = FALSE_ALARMS) -> pd.DataFrame:
        """One row per bag: medians and intervals of `columns`, and `stands_out`."""
        import pandas as pd

        columns: dict[str, Any] = self.columns(level) | {"stands_out": self.stands_out(false_alarms)}
        return pd.DataFrame(columns, index=pd.Index(self.labels, name="bag"))
