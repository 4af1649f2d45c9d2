"""Totals of polygons: those of the fit, piece by piece of the table of pixels, and any others by themselves.

The posterior of a bag needs all its features at once. A large one is cut into pieces of neighbouring cells, whose
totals are added with their covariance; between pieces, as between bags, that comes from the landmarks alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.geo.pieces import PieceRows
from vbagg.geo.units import link_of
from vbagg.posterior import PointEstimate
from vbagg.validate.bag_scores import pit_ends

if TYPE_CHECKING:
    from vbagg.geo.answers import Answers
    from vbagg.geo.prepared import Prepared

Floats = NDArray[np.float64]

EXACT = {"completeness": 1.0, "weight_sd": 0.0}
"""What stands for nothing told, where there is no total."""
PIECE = 30_000
"""Most individuals of a piece."""


def posterior_totals(model: Any, bags: Bags) -> Any:
    """Posterior of each bag's expected total (its share, with a logistic link): `mean`, `std`, `interval`, ..."""
    if bags.sizes.max() <= PIECE:
        return model.posterior_bags(bags)
    bags = bags.drop_zero_weight()
    within = np.arange(bags.n_individuals) - bags.starts[:-1][bags.bag]
    number = np.cumsum((within % PIECE == 0).astype(int)) - 1
    X = pd.DataFrame(bags.X, columns=list(bags.feature_names)) if bags.named else bags.X
    coordinates = [bags.feature_names[column] for column in bags.coordinates] if bags.named else bags.coordinates
    # names that no training bag has
    names = np.array([f"piece {at} of a polygon" for at in range(number[-1] + 1)], dtype=object)
    pieces = Bags(X, names[number], bags.weight, coordinates=coordinates)
    whole = bags.bag[pieces.starts[:-1]]
    part = pieces.totals() / bags.totals()[whole] if link_of(model).averages else np.ones(len(pieces))
    posterior = model.posterior_bags(pieces)
    mean = np.bincount(whole, part * posterior.mean)
    if not hasattr(posterior, "covariance"):
        return PointEstimate(mean)
    covariance = np.outer(part, part) * posterior.covariance()
    starts = np.flatnonzero(np.diff(whole, prepend=-1))
    variance = np.diag(np.add.reduceat(np.add.reduceat(covariance, starts, axis=0), starts, axis=1))
    return link_of(model).total_law.from_moments(mean, variance)


def summary(model: Any, posterior: Any, exposure: Floats, level: float, per: float) -> dict[str, Floats]:
    """Expected totals and rates of bags with their uncertainty, NaN where the model has none."""
    unknown = np.full(len(exposure), np.nan)
    lower, upper = posterior.interval(level) if hasattr(posterior, "interval") else (unknown, unknown)
    sd = posterior.std if hasattr(posterior, "std") else unknown
    to_total = exposure if link_of(model).averages else 1.0
    parts = {"": posterior.mean, "_sd": sd, "_lower": lower, "_upper": upper}
    totals = {f"total{part}": to_total * values for part, values in parts.items()}
    return totals | {f"rate{part}": per * totals[f"total{part}"] / exposure for part in parts}


@dataclass(frozen=True, eq=False)
class FittedTotals:
    """Asks for what is known of the polygons of the fit, in the order in which they are in a piece.

    Attributes
    ----------
    labels, y, examined
        All polygons, their totals as far as they are known, and those of the examined, if there are any.
    reporting
        Completeness of reports, and relative standard deviations of people, of all polygons as far as they are told.
    level, per
        Level of intervals, and units of rates.
    threshold
        A rate in these units; people of each polygon above it are asked for, if there is one.
    """

    labels: NDArray[np.object_]
    y: Floats
    examined: Floats | None
    level: float
    per: float
    reporting: dict[str, Floats] = field(default_factory=dict)
    threshold: float | None = None
    name: str = "totals"

    @classmethod
    def of(
        cls,
        prepared: Prepared,
        response: str,
        level: float,
        per: float,
        trials: str | None,
        threshold: float | None = None,
    ) -> FittedTotals:
        """Those of a response of prepared data."""
        labels = prepared.polygons.labels
        examined = None if trials is None else prepared.y(trials).reindex(labels).to_numpy()
        reporting = {
            name: values.reindex(labels).fillna(EXACT[name]).to_numpy() for name, values in prepared.reporting().items()
        }
        return cls(labels, prepared.polygons.totals(response).exact, examined, level, per, reporting, threshold)

    def told(self) -> str:
        """Units, and what was observed."""
        examined = None if self.examined is None else self.examined.tolist()
        reporting = {name: values.tolist() for name, values in self.reporting.items()}
        asked = NAMES, self.level, self.per, self.threshold
        return repr((*asked, self.labels.tolist(), self.y.tolist(), examined, reporting))

    def answer(self, model: Any, rows: PieceRows) -> Floats:
        """Columns of `NAMES` (k, polygons)."""
        bags = rows.bags
        if bags is None:
            return np.empty((len(NAMES), 0))
        at = pd.Index(self.labels).get_indexer(list(bags.labels))
        exposure, y = bags.totals(), self.y[at]
        examined = None if self.examined is None else self.examined[at]
        new = model.predictive_bags(bags, examined, **{name: values[at] for name, values in self.reporting.items()})
        base = exposure if examined is None else examined
        found = summary(model, model.posterior_bags(bags), base, self.level, self.per)
        below, upto = pit_ends(new, np.nan_to_num(y))
        fitted = [found[f"total{part}"] for part in ("", "_lower", "_upper")]
        rates = [found[f"rate{part}"] for part in ("", "_lower", "_upper")]
        middle, residual = np.where(np.isnan(y), np.nan, (below + upto) / 2), (y - new.mean) / new.std
        told = model.information(bags).bags if hasattr(model, "information") else np.full(len(bags), np.nan)
        own = _effects(model, bags, examined, self.level)
        people = self._people_above(model, bags)
        return np.stack(
            [at, exposure, *fitted, *new.interval(self.level), *rates, middle, residual, told, *own, people]
        )

    def _people_above(self, model: Any, bags: Bags) -> Floats:
        """Sums over the individuals of each bag of their weight times the probability; NaN if nobody asked."""
        if self.threshold is None or isinstance(posterior := model.posterior(bags), PointEstimate):
            return np.full(len(bags), np.nan)
        return bags.sum_by_bag(bags.weight * posterior.exceedance(self.threshold / self.per))

    def columns(self, answers: Answers) -> dict[str, Floats]:
        """Answers about all pieces, by name."""
        return dict(zip(NAMES, np.concatenate(list(answers), axis=1), strict=True))


def _effects(model: Any, bags: Bags, examined: Floats | None, level: float) -> list[Floats]:
    """Columns of `EFFECTS` and `TAILS`, NaN where the model has none."""
    if not hasattr(model, "bag_effects"):
        return [np.full(len(bags), np.nan) for _ in (*EFFECTS, *TAILS)]
    found = model.bag_effects(bags, examined)
    columns = found.columns(level)
    return [*(columns[name] for name in EFFECTS), found.tails.at_most, found.tails.at_least]


EFFECTS = (
    *("effect", "effect_lower", "effect_upper", "effect_above"),
    *("from_others", "from_others_lower", "from_others_upper"),
)
TAILS = ("at_most", "at_least")
"""What `vbagg.effects` says of polygons, and where their totals lie in what the others expect."""
ABOVE = "above"
"""People of polygons that are likely to live above the threshold."""
NAMES = (
    *("position", "exposure", "fitted", "fitted_lower", "fitted_upper", "predicted_lower", "predicted_upper"),
    *("rate", "rate_lower", "rate_upper", "pit", "residual", "information"),
    *EFFECTS,
    *TAILS,
    ABOVE,
)
"""Of the columns of an answer about fitted polygons."""
