"""Data sets of `peers.py`: totals of bags to learn from, and what is true of the individuals inside them.

`london-CRIME-LEVEL` (crime of five years: burglary, theft, vehicle, violence; LEVEL borough or msoa) and `elevators`
are real and scored by the observed rates of individuals. `madagascar-COUNTS-SEED` (COUNTS high or low) has the real
population and covariates, and rates that are made up; `demo` is the country of `vbagg demo`. Both are scored by the
true rates, about which the totals vary.
"""

from __future__ import annotations

from dataclasses import dataclass

import nested
import numpy as np
import pandas as pd

import vbagg

SEEDS = 5
RATES = {"high": 0.05, "low": 1e-4}
"""Mean cases a head of the made-up rates: about 10,000 and 20 in a district of Madagascar."""
DATA_SETS = [
    *(f"london-{crime}-borough" for crime in nested.CRIMES),
    "elevators",
    "demo",
    *(f"madagascar-{counts}-{seed}" for seed in range(SEEDS) for counts in RATES),
    *(f"london-{crime}-msoa" for crime in nested.CRIMES),
]


@dataclass(frozen=True, eq=False)
class Task:
    """Bags and totals, which a method may use, and the truth, which only scores may.

    Attributes
    ----------
    bags, y
        Individuals, and the total of each bag.
    truth
        Rate of each row of `bags.X`.
    counts
        Totals are counts and rates positive; otherwise totals are sums of any numbers.
    noisy
        `truth` are observed outputs over weights, not the rates that these vary about.
    per
        Unit of the rates in scores.
    outline
        Name of the polygon that holds each row, in `polygons`; None if cells are pixels of a grid, or not places.
    polygons
        File of these polygons, by column `MSOA11CD`.
    """

    bags: vbagg.Bags
    y: np.ndarray
    truth: np.ndarray
    counts: bool
    noisy: bool
    per: float = 1000.0
    outline: np.ndarray | None = None
    polygons: str | None = None

    @property
    def likelihood(self) -> str:
        """Name of vbagg's likelihood."""
        return "negative_binomial" if self.counts else "normal"

    @property
    def bag_rate(self) -> np.ndarray:
        """Observed rate of each bag."""
        return self.y / self.bags.totals()

    @property
    def bag_means(self) -> np.ndarray:
        """Mean features of each bag, by weight."""
        weighted = [self.bags.sum_by_bag(self.bags.weight * column) for column in self.bags.X.T]
        return np.stack(weighted, axis=1) / self.bags.totals()[:, None]

    def part(self, chosen: np.ndarray) -> Task:
        """Some of the bags, without the truth: what tuning may see."""
        rows = np.isin(self.bags.bag, np.flatnonzero(chosen))
        outline = None if self.outline is None else self.outline[rows]
        bags = self.bags[np.flatnonzero(chosen)]
        empty = np.full(rows.sum(), np.nan)
        return Task(bags, self.y[chosen], empty, self.counts, self.noisy, self.per, outline, self.polygons)

    def observed(self, rates: np.ndarray, seed: int = 0) -> np.ndarray:
        """Draws (s, n) of what is scored for draws of rates: with the noise of counts if outputs are scored."""
        if not (self.noisy and self.counts):
            return rates
        weight = self.bags.weight
        return np.random.default_rng([seed, 1]).poisson(np.clip(rates, 0, None) * weight) / weight


def of_nested(problem: nested.Nested, counts: bool) -> Task:
    """Individuals are the fine areas."""
    bags, place = problem.coarse, problem.fine_of_row
    truth = problem.fine_y[place] / problem.fine.totals()[place]
    return Task(bags, problem.y, truth, counts, noisy=True, per=problem.per)


def london(crime: str, level: str) -> Task:
    task = of_nested(nested.london(crime, level), counts=True)
    folder = nested.folder("london_lsoa")
    data = pd.read_csv(folder / "data.csv", usecols=["x", "y", "MSOA11CD"])
    place = pd.Series(
        data["MSOA11CD"].to_numpy(), index=pd.MultiIndex.from_arrays([data["x"] / 1000, data["y"] / 1000])
    )
    names = place.loc[list(map(tuple, task.bags.X[:, list(task.bags.coordinates)]))].to_numpy()
    return Task(task.bags, task.y, task.truth, True, True, task.per, names, str(folder / "msoa.gpkg"))


def made_up_log_rate(X: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Steps in each covariate, an interaction of two, and a smooth field in space; mean 0 and sd 1 over the pixels."""
    covariates = X.drop(columns=["x", "y"]).to_numpy()
    covariates = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)
    size, steepness = rng.normal(0, 1, 3), rng.uniform(1, 3, 3)
    effect = np.tanh(steepness * (covariates - rng.normal(0, 0.7, 3))) @ size
    effect += rng.normal(0, 0.7) * np.prod(np.tanh(covariates[:, rng.permutation(3)[:2]]), axis=1)
    waves = rng.standard_t(3, (200, 2)) / rng.uniform(60, 200)
    field = np.cos(X[["x", "y"]].to_numpy() @ waves.T + rng.uniform(0, 2 * np.pi, 200)).mean(axis=1)
    log_rate = effect / effect.std() + rng.uniform(0.4, 1) * field / field.std()
    return (log_rate - log_rate.mean()) / log_rate.std()


def madagascar(counts: str, seed: int) -> Task:
    """Pixels and people of Madagascar with made-up rates, the same for high and low counts of a seed."""
    bags = vbagg.datasets.madagascar().bags.drop_zero_weight()
    rng = np.random.default_rng([2026, seed])
    rate = np.exp(made_up_log_rate(pd.DataFrame(bags.X, columns=bags.feature_names), rng))
    rate *= RATES[counts] / np.average(rate, weights=bags.weight)
    y = rng.poisson(bags.sum_by_bag(bags.weight * rate)).astype(float)
    return Task(bags, y, rate, counts=True, noisy=False)


def demo() -> Task:
    """The country of `vbagg demo`, without its detour over files; rates are per 1000 already."""
    country = vbagg.datasets.simulated_country(0.01, seed=9, n_districts=80, dispersion=0.05)
    keep = country.bags.weight > 0
    bags = country.bags.drop_zero_weight()
    return Task(bags, country.y, country.rate[keep], counts=True, noisy=False, per=1.0)


def load(name: str) -> Task:
    """Data set by name."""
    kind, *rest = name.split("-")
    if kind == "london":
        return london(*rest)
    if kind == "madagascar":
        return madagascar(rest[0], int(rest[1]))
    return demo() if kind == "demo" else of_nested(nested.elevators(), counts=False)
