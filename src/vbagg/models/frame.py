"""The units in which a model is learnt: standard columns, weights and `f` in units of the overall rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbagg.bags import Bags
from vbagg.links import Link
from vbagg.portions import Portions
from vbagg.scaling import Scaler


@dataclass(frozen=True)
class Frame:
    """Scales learnt from the training data, and the checks that new data fit to them."""

    link: Link
    scaler: Scaler
    rate_scale: float
    """Overall rate, by which rates are divided so that `f` is of order one."""
    base: float
    """Known part of the mean of `f`."""
    feature_names: tuple[str, ...]
    named: bool

    @classmethod
    def fit(cls, portions: Portions, y: np.ndarray, link: Link, exposure: np.ndarray) -> Frame:
        """Scales of the data and their outputs, which are rates times `exposure`."""
        rate_scale, base = link.units(y, exposure)
        outline = portions.outline
        return cls(link, Scaler.fit(portions), rate_scale, base, outline.feature_names, outline.named)

    def beside(self, y: np.ndarray, link: Link, exposure: np.ndarray) -> Frame:
        """Units of further outputs, with a rate and a link of their own, of individuals in the same standard units."""
        rate_scale, base = link.units(y, exposure)
        return replace(self, link=link, rate_scale=rate_scale, base=base)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of all columns that kernels may see: the user's, then the coordinates of each chart."""
        made = (f"geodesic {i + 1}" for chart in self.scaler.charts for i in range(chart.dimensions))
        return (*self.feature_names, *made)

    def rows(self, X: Any) -> np.ndarray:
        """Features of individuals in standard units."""
        rows = Bags(X, np.zeros(len(X), dtype=int))
        self._check_columns(rows)
        return self.scaler.forward(rows.X)

    def known(self, offset: np.ndarray) -> np.ndarray:
        """Known part of `f` per row, in the units in which `f` is learnt."""
        return self.base + offset / self.link.latent_unit(self.rate_scale)

    def known_of_rows(self, offset: Any, n: int) -> np.ndarray:
        """The same for a user's offset of `n` individuals, None for zero."""
        return self.known(_check_offset(offset, n))

    def standardised(self, bags: Bags, offset: np.ndarray) -> tuple[Bags, np.ndarray]:
        """Bags in standard units, weights in units of the overall rate, and the known part of `f` of their rows."""
        weight = bag_weights(bags, self.link).weight * self.rate_scale
        return bags.with_arrays(self.scaler.forward(bags.X), weight), self.known(offset)

    def check_bags(self, bags: Any) -> None:
        """Refuse what is not bags with the columns of the training data."""
        check_is_bags(bags)
        self._check_columns(bags)

    def _check_columns(self, bags: Bags) -> None:
        expected = self.feature_names
        if bags.n_features != len(expected):
            raise ValueError(
                f"The model was fitted with {len(expected)} columns ({', '.join(expected)}); got {bags.n_features}."
            )
        if self.named and bags.named and bags.feature_names != expected:
            raise ValueError(
                f"The model was fitted with columns {list(expected)}; got {list(bags.feature_names)}."
                " Reorder or rename them."
            )


def check_is_bags(bags: Any) -> None:
    """Refuse anything but `Bags`."""
    if not isinstance(bags, Bags):
        raise TypeError(f"`bags` must be a vbagg.Bags; got {type(bags).__name__}. Use vbagg.Bags(X, bag, weight).")


def drop_inert(bags: Bags, offset: Any) -> tuple[Bags, np.ndarray]:
    """Bags without zero-weight rows, and the offset of their rows (zero when None)."""
    values = np.zeros(bags.n_individuals) if offset is None else bags.align_rows(offset, "offset")
    return bags.drop_zero_weight(), values[bags.weight > 0]


def observed_bags(bags: Bags, offset: np.ndarray, seen: np.ndarray) -> tuple[Bags, np.ndarray]:
    """Those bags that have an output, and the offset of their rows."""
    return (bags, offset) if seen.all() else (bags[seen], offset[seen[bags.bag]])


def bag_weights(bags: Bags, link: Link) -> Bags:
    """Bags as they enter `T`: where totals are averages, weights sum to one in each bag."""
    if not link.averages:
        return bags
    return bags.with_arrays(weight=bags.weight / bags.totals()[bags.bag])


def _check_offset(offset: Any, n: int) -> np.ndarray:
    if offset is None:
        return np.zeros(n)
    values = np.asarray(offset, dtype=float)
    if values.shape != (n,):
        raise ValueError(f"`offset` must hold {n} numbers, one per row; got shape {values.shape}.")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"`offset` must be finite; got {values[bad[0]]} at row {bad[0]}.")
    return values
