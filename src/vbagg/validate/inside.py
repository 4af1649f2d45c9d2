"""Bags inside unions whose outputs are known: the law of each output, and what a model claims of its own errors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vbagg import laws
from vbagg.bags import Bags
from vbagg.laws.parts import PartOf
from vbagg.likelihoods.base import Likelihood
from vbagg.models import setup
from vbagg.validate.bag_scores import are_whole, bag_scores
from vbagg.validate.unions import Unions

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
MOST_ROWS = 200_000
"""Individuals that are held at a time."""
MOST_CELLS, FEWEST_LOOKED_AT = 4_000, 40
"""Cells whose claims are looked at, and bags that these are from."""
LEVELS = (np.arange(40) + 0.5) / 40
"""Quantiles that stand for a law."""


@dataclass(frozen=True)
class Known:
    """What is known of bags besides their individuals (b)."""

    y: Floats
    trials: Floats | None = None
    completeness: Floats | None = None
    weight_sd: Floats | None = None

    def exposure(self, bags: Bags) -> Floats:
        """What outputs are relative to."""
        if self.trials is not None:
            return self.trials
        return bags.totals() * (1.0 if self.completeness is None else self.completeness)

    def summed(self, unions: Unions) -> Known:
        """The same of unions; errors of weights are independent."""
        weight, whole = unions.fine.totals(), unions.coarse.totals()
        share, sd = self.completeness, self.weight_sd
        return Known(
            unions.sum(self.y),
            None if self.trials is None else unions.sum(self.trials),
            None if share is None else unions.sum(share * weight) / whole,
            None if sd is None else np.sqrt(unions.sum((sd * weight) ** 2)) / whole,
        )

    def to_predict(self, bags: Bags, likelihood: Likelihood) -> tuple[Likelihood, dict[str, Any]]:
        """The likelihood of these outputs, and what it must know of their bags."""
        return setup.to_predict(bags, likelihood, self.trials, self.completeness, self.weight_sd)

    def facts(self) -> dict[str, Floats]:
        """By the names that `fit` has for them."""
        return {name: values for name, values in vars(self).items() if name != "y" and values is not None}


def scores_inside(model: Any, unions: Unions, known: Known) -> pd.DataFrame:
    """Scores of the bags inside unions by a model that was fitted to the outputs of these, a row each.

    Columns as in `Validation.table`; `union`, and `same_rate`: the output if the union had one rate. Then on the scale
    of `Root`, as differences from the mean of the union: the `value` observed, the model's `estimate`, the squared
    error that it expects (`own_error`), and what chance adds to it (`noise`).
    """
    import pandas as pd

    inside, exposure = unions.inside, known.exposure(unions.fine)
    outputs = Outputs.of(model, unions, known)
    same = (unions.sum(known.y) / unions.sum(exposure))[unions.of]
    to_root = Root(outputs.counts)
    rates = to_root(outputs.nodes / exposure)

    def differences(values: Floats) -> Floats:
        return values - (unions.sum(exposure * values) / unions.sum(exposure))[unions.of]

    columns = {
        "bag": unions.fine.labels,
        "union": unions.of,
        "y": known.y,
        "exposure": exposure,
        "same_rate": same * exposure,
        "value": differences(to_root(known.y / exposure)),
        "estimate": differences(rates.mean(axis=0)),
        "own_error": rates.var(axis=0),
        "noise": outputs.noise * (to_root.slope(outputs.mean / exposure) / exposure) ** 2,
    }
    rows = {name: np.asarray(values)[inside] for name, values in columns.items()}
    return pd.DataFrame(rows | bag_scores(outputs.law[inside], known.y[inside], are_whole(known.y)))


@dataclass(frozen=True)
class Root:
    """Square roots of rates of counts, whose errors are alike for low and high rates; other rates as they are."""

    counts: bool

    def __call__(self, rates: Floats) -> Floats:
        """Of rates."""
        return np.sqrt(np.maximum(rates, 0.0)) if self.counts else rates

    def slope(self, rates: Floats) -> Floats:
        """Derivative."""
        return 0.5 / np.sqrt(np.maximum(rates, 1e-300)) if self.counts else np.ones_like(rates)


@dataclass(frozen=True)
class Outputs:
    """Outputs of bags given those of their unions, MATH (28) and (29).

    `y_i = t_i + e_i`, with the sum of all outputs of a union known. Given the totals `t`, noise of the variances `n` is
    shared as `a_i = n_i / sum n`: it has the mean `a_i (sum y - sum t)` and the variance `n_i (1 - a_i)`. Its mean goes
    down where `t_i` goes up, which takes about `a_i^2 Var(sum t)` from the variance of the output.
    """

    nodes: Floats
    """Quantiles (k, b) of expected outputs."""
    noise: Floats
    whole: Floats | None
    """Outputs of the unions, if they are counts."""

    @classmethod
    def of(cls, model: Any, unions: Unions, known: Known) -> Outputs:
        """By the posterior of a fitted model."""
        learnt, totals = model.likelihood_parameters_, _totals(model, unions)
        plain = model._checked().likelihood.without_effect(learnt)
        likelihood, facts = known.to_predict(unions.fine, plain)
        mean, sd, logs = totals.mean, totals.std, likelihood.logs(learnt)
        expected, slope = (np.asarray(likelihood.mean(T, facts, logs)) for T in (mean, np.ones_like(mean)))
        noise = np.asarray(likelihood.variance(mean, facts, logs)) * np.ones_like(mean)
        share = noise / np.maximum(unions.sum(noise), 1e-300)[unions.of]
        of_sum = _variance_of_sums(model, unions, plain, known)
        variance = (slope * sd) ** 2
        kept = np.sqrt(np.maximum(1 - share**2 * of_sum[unions.of] / np.maximum(variance, 1e-300), 0.0))
        shift = share * (unions.sum(known.y) - unions.sum(expected))[unions.of]
        nodes = expected + shift + kept * slope * (totals.quantiles - mean)
        whole = unions.sum(known.y)[unions.of] if likelihood.counts else None
        return cls(nodes, noise * (1 - share), whole)

    @property
    def counts(self) -> bool:
        """Whether outputs are whole numbers."""
        return self.whole is not None

    @property
    def mean(self) -> Floats:
        """Expected outputs."""
        return self.nodes.mean(axis=0)

    @property
    def law(self) -> PartOf:
        """Laws of the outputs."""
        return PartOf(self.nodes, self.noise, self.whole)


def _totals(model: Any, unions: Unions) -> laws.Summary:
    """Moments and quantiles of the totals of bags by a model that knows the outputs of their unions, some at a time."""
    part, ends, start, n = unions.part, unions.coarse.starts, 0, len(unions.fine)
    found = laws.Summary(np.empty(n), np.empty(n), np.empty((len(LEVELS), n)), np.empty((0, n)))
    while start < len(unions.coarse):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + MOST_ROWS, side="right")) - 1)
        some = unions.coarse[start:stop]
        rows = np.flatnonzero(some.weight > 0)
        own, area = np.unique(part[ends[start] : ends[stop]][rows], return_inverse=True)
        law = model.posterior_areas(some, rows, area).law
        found.mean[own], found.std[own], found.quantiles[:, own] = law.mean, law.std, law.quantile(LEVELS)
        start = stop
    return found


def _variance_of_sums(model: Any, unions: Unions, plain: Any, known: Known) -> Floats:
    """Variance of the expected output of each union, given its output."""
    likelihood, facts = known.summed(unions).to_predict(unions.coarse, plain)
    slope = np.asarray(likelihood.mean(np.ones(len(unions.coarse)), facts, {}))
    return (slope * model.posterior_bags(unions.coarse).std) ** 2


@dataclass(frozen=True)
class SomeCells:
    """Individuals of positive weight that stand for those of all bags, compared with others of their bag."""

    bags: Bags
    rows: NDArray[np.intp]
    """Stored rows (n)."""

    @classmethod
    def of(cls, bags: Bags, most: int = MOST_CELLS) -> SomeCells:
        """All, or some of some bags, and of each alike."""
        weighty = [
            start + np.flatnonzero(bags.weight[start:stop] > 0) for start, stop in itertools.pairwise(bags.starts)
        ]
        number = min(len(weighty), max(FEWEST_LOOKED_AT, most * len(weighty) // max(1, sum(map(len, weighty)))))
        chosen = [weighty[at] for at in _evenly(len(weighty), number)]
        return cls(bags, np.concatenate([rows[_evenly(len(rows), max(1, most // number))] for rows in chosen]))

    @property
    def bag(self) -> NDArray[np.intp]:
        """Position of the bag of each (n)."""
        return self.bags.bag[self.rows]

    @property
    def weight(self) -> Floats:
        """Weights (n)."""
        return self.bags.weight[self.rows]

    def sum(self, values: Floats) -> Floats:
        """Weighted sums by bag (b)."""
        return np.bincount(self.bag, self.weight * values, len(self.bags)).astype(float)

    def differences(self, values: Floats) -> Floats:
        """How far each is above the mean of its bag's."""
        return values - (self.sum(values) / np.maximum(self.sum(np.ones(len(values))), 1e-300))[self.bag]

    def roots(self, model: Any, law: Any) -> Floats:
        """Rates on the scale of `Root` (k, n) that stand for their distributions, of those of all individuals."""
        return Root(_has_counts(model))(law[self.rows].quantile(LEVELS))


def claims_of_cells(model: Any, bags: Bags, most: int = MOST_CELLS) -> pd.DataFrame:
    """What a model that was fitted to the outputs of bags claims of its errors inside these, for some of the cells.

    Columns as those of `scores_inside` on the scale of `Root`; `exposure` is the weight of a cell, `parts` how many
    cells its bag has in effect.
    """
    import pandas as pd

    cells = SomeCells.of(bags, most)
    rates = cells.roots(model, model.posterior(bags).law)
    columns = {
        "row": cells.rows,
        "bag": bags.labels[cells.bag],
        "exposure": cells.weight,
        "estimate": cells.differences(rates.mean(axis=0)),
        "own_error": rates.var(axis=0),
        "parts": bags.effective_sizes()[cells.bag],
    }
    return pd.DataFrame(columns)


def squares_inside(model: Any, law: Any, truth: Floats, bags: Bags) -> tuple[Floats, Floats]:
    """Weighted sums by bag (b) of squared differences between its cells: what a model leaves of the true ones, and all.

    `law` are the rates of all individuals of the bags by the model, `truth` the true ones; differences are on the scale
    of `Root`, and of some of the cells.
    """
    cells = SomeCells.of(bags)
    told = cells.differences(cells.roots(model, law).mean(axis=0))
    true = cells.differences(Root(_has_counts(model))(truth[cells.rows]))
    return cells.sum((true - told) ** 2), cells.sum(true**2)


def _has_counts(model: Any) -> bool:
    return bool(model._checked().likelihood.counts)


def _evenly(n: int, number: int) -> NDArray[np.intp]:
    """So many of `n` positions, or all."""
    return np.unique(np.linspace(0, n - 1, min(n, number)).astype(np.intp))
