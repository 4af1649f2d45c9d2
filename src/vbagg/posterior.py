"""Posteriors of individuals and of bags: a distribution for each row, plus joint draws.

Both delegate `mean`, `std`, `quantile`, `interval`, `exceedance`, `cdf` and `log_prob` to their distribution, `law`,
and add `sample`, which keeps the covariance between rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from vbagg import laws
from vbagg.chunks import round_up
from vbagg.compiling import jit
from vbagg.elbo import Spec
from vbagg.errors import NoUncertaintyError
from vbagg.features import Basis, features, residual_block
from vbagg.links import Link
from vbagg.triangular import compiled_times_upper

UNCERTAIN = ("law", "std", "quantile", "interval", "exceedance", "cdf", "log_prob", "sample", "summary", "covariance")
HERMITE = np.polynomial.hermite_e.hermegauss(12)
HERMITE = HERMITE[0], HERMITE[1] / HERMITE[1].sum()
ROUNDING = 1e-9
JOINT_ROWS = 1024
"""Rows whose residuals are drawn jointly, unless fewer are asked for; blocks are joined by the landmarks alone."""


class Posterior:
    """Distribution of one number per row: an individual's rate, a bag's total, or a bag's new output."""

    def __init__(
        self,
        law: laws.Law | Callable[[], laws.Law],
        draw: Callable[[int, int], np.ndarray],
        summary: Callable[[np.ndarray, np.ndarray], laws.Summary] | None = None,
    ) -> None:
        self._law, self._draw, self._summary = law, draw, summary

    @cached_property
    def law(self) -> laws.Law:
        """The distribution of each row; where draws do without it, it is worked out when it is asked for."""
        return self._law if isinstance(self._law, laws.Law) else self._law()

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean (rows)."""
        return self.law.mean

    @property
    def std(self) -> np.ndarray:
        """Posterior standard deviation (rows)."""
        return self.law.std

    def quantile(self, q: float | np.ndarray) -> np.ndarray:
        """Quantiles: (rows) for one level, (len(q), rows) for several."""
        return self.law.quantile(q)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central interval."""
        return self.law.interval(level)

    def exceedance(self, threshold: float | np.ndarray) -> np.ndarray:
        """Probability of being above `threshold`."""
        return self.law.exceedance(threshold)

    def summary(
        self, levels: Sequence[float] | np.ndarray = (), thresholds: Sequence[float] | np.ndarray = ()
    ) -> laws.Summary:
        """Mean, standard deviation, quantiles at `levels` and probabilities of being above `thresholds`, all at once.

        Rates of many individuals come from one compiled function of their features, which keeps nothing of single
        members of the average.
        """
        levels, thresholds = laws.probabilities(np.ravel(levels), "levels"), np.ravel(thresholds)
        if self._summary is None or "law" in vars(self):
            return self.law.summary(levels, thresholds)
        return self._summary(levels, thresholds)

    def cdf(self, x: float | np.ndarray) -> np.ndarray:
        """Probability of being at or below `x`."""
        return self.law.cdf(x)

    def log_prob(self, y: np.ndarray, upper: np.ndarray | None = None) -> np.ndarray:
        """Log density (mass for counts) at `y`; where `upper` is more, log probability of what lies between them."""
        return self.law.log_prob(y) if upper is None else self.law.log_prob_within(y, upper)

    def sample(self, n: int = 100, seed: int = 0) -> np.ndarray:
        """Joint draws (n, rows)."""
        _require_draws(n)
        return self._draw(n, seed)

    def __len__(self) -> int:
        return len(self.law)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows, {type(self.law).__name__})"


class RowPosterior(Posterior):
    """Posterior of the rates of individuals."""

    _draw: Callable[..., np.ndarray]

    def sample(self, n: int = 100, seed: int = 0, joint: int = JOINT_ROWS) -> np.ndarray:
        """Joint draws (n, rows).

        What landmarks do not explain is drawn jointly for so many rows at a time, one after the other as they stand.
        Where rows that belong together are near to each other, few are enough, and cost less.
        """
        if not 1 <= joint <= JOINT_ROWS:
            raise ValueError(f"`joint` must be from 1 to {JOINT_ROWS} rows; got {joint}.")
        _require_draws(n)
        return self._draw(n, seed, joint)


class BagPosterior(Posterior):
    """Posterior of bag totals, with the covariance between bags."""

    def __init__(self, law: laws.Law, draw: Callable[..., Any], covariance: Callable[[], np.ndarray]) -> None:
        super().__init__(law, draw)
        self._covariance = covariance

    def covariance(self) -> np.ndarray:
        """Covariance of the totals (b, b): the distribution's variance on the diagonal.

        Between bags it comes from the landmarks alone, by the link's `total_covariance`.
        """
        return self._covariance()


class Simulated(NamedTuple):
    """Joint draws of true rates, and of what would be observed of them."""

    rates: np.ndarray
    """(n, rows) of individuals."""
    outputs: np.ndarray
    """(n, bags) new outputs."""


class PointEstimate:
    """One number per row from a model that has no uncertainty: `mean` is its estimate, and there is nothing else."""

    def __init__(self, mean: np.ndarray) -> None:
        self.mean = mean

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"PointEstimate({len(self)} rows)"

    def __getattr__(self, name: str) -> NoReturn:
        if name in UNCERTAIN:
            raise NoUncertaintyError(
                f"`{name}` needs a posterior distribution, and this model estimates a single value for each row."
                " Use vbagg.VBAgg, or `predictive_bags` for the noise of new outputs alone."
            )
        raise AttributeError(f"PointEstimate has no attribute {name!r}")


def _require_draws(n: int) -> None:
    if n < 1:
        raise ValueError(f"`n` must be at least 1; got {n}.")


@jit(static_argnames="spec")
def _blocks_of_rows(spec: Spec, basis: Basis, X: Any) -> tuple[jax.Array, jax.Array]:
    """Features (k j, m), and residual covariances (k, j, j), of blocks of rows (k, j, d)."""
    A = features(spec.feature_map, basis, X.reshape(-1, X.shape[-1]), compiled_times_upper)
    own = A.reshape(*X.shape[:-1], -1)
    return A, jax.vmap(lambda rows, features: residual_block(spec.feature_map, basis, rows, features))(X, own)


def draw_rows(
    spec: Spec,
    basis: Basis,
    mu: np.ndarray,
    factor: np.ndarray,
    X: np.ndarray,
    known: np.ndarray,
    n: int,
    seed: int,
    white: float = 0.0,
    starts: np.ndarray | None = None,
    adjust: Callable[[int, np.ndarray, np.ndarray], np.ndarray] | None = None,
    joint: int = JOINT_ROWS,
) -> np.ndarray:
    """Joint draws of `Psi(f)` (n, rows): the weights first, then the residual in blocks of `joint` rows.

    An individual effect of the variance `white` is averaged over. Blocks end where bags do, if `starts` of bags are
    given; then `adjust(bag, f, v)` may change the draws (rows, n) of a bag's `f`, given those of the weights.
    """
    rng = np.random.default_rng(seed)
    v = mu[:, None] + factor @ rng.standard_normal((len(mu), n))
    out = np.empty((n, len(X)))
    ends = np.array([0, len(X)]) if starts is None else starts
    for bag, (begin, end) in enumerate(itertools.pairwise(ends)):
        f = np.empty((end - begin, n))
        for start in range(begin, end, JOINT_ROWS):
            rows = slice(start, min(start + JOINT_ROWS, end))
            A, R = _joint_rows(spec, basis, X[rows], joint)
            normal = np.zeros((R.shape[0] * R.shape[1], n))
            normal[: len(A)] = rng.standard_normal((len(A), n))
            residual = _root(R - white * np.eye(R.shape[1])) @ normal.reshape(*R.shape[:2], n)
            f[start - begin : rows.stop - begin] = known[rows, None] + A @ v + residual.reshape(-1, n)[: len(A)]
        if adjust is not None:
            f = adjust(bag, f, v)
        out[:, begin:end] = _rates(spec.link, f, white).T
    return out


def draw_near_alike(
    places: np.ndarray, share: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws (rows, n) with correlations `exp(-distance)`, in blocks of rows, and their variance about their mean.

    The mean is weighted by `share`.
    """
    drawn, with_mean = np.empty((len(places), n)), np.empty(len(places))
    for start in range(0, len(places), JOINT_ROWS):
        rows = slice(start, start + JOINT_ROWS)
        root, with_mean[rows] = near_alike(places[rows], share[rows])
        drawn[rows] = root @ rng.standard_normal((len(root), n))
    return drawn, 1 - 2 * with_mean + share @ with_mean


def near_alike(places: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots (..., j, j) of the correlations `exp(-distance)` of places (..., j, 2), and correlations with their mean.

    The mean is weighted by `share` (..., j).
    """
    apart = places[..., :, None, :] - places[..., None, :, :]
    correlation = np.exp(-np.sqrt(np.sum(apart**2, axis=-1)))
    return _root(correlation), np.sum(correlation * share[..., None, :], axis=-1)


def _root(R: np.ndarray) -> np.ndarray:
    """`C` (..., j, j) with `C C^T = R`, covariances up to rounding."""
    scale = np.diagonal(R, axis1=-2, axis2=-1).max(axis=-1, initial=1e-300)
    try:
        return np.linalg.cholesky(R + ROUNDING * scale[..., None, None] * np.eye(R.shape[-1]))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(R)
        return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def _rates(link: Link, f: np.ndarray, white: float) -> np.ndarray:
    """Mean rates over individual effects of the variance `white`."""
    if not white:
        return link.rate_and_slope(f)[0]
    parts = (w * link.rate_and_slope(f + np.sqrt(white) * z)[0] for z, w in zip(*HERMITE, strict=True))
    return sum(parts, start=np.zeros_like(f))


def _joint_rows(spec: Spec, basis: Basis, X: np.ndarray, joint: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, m) of rows and residual covariances (k, j, j) of blocks of them, compiled for few numbers of both.

    The last row is repeated until blocks are full.
    """
    width = len(X) if len(X) <= joint else joint
    blocks = -(-len(X) // width)
    padded = round_up(blocks, 1), round_up(width, 1) if blocks == 1 else width
    rows = np.pad(X, ((0, padded[0] * padded[1] - len(X)), (0, 0)), mode="edge")
    A, R = _blocks_of_rows(spec, basis, rows.reshape(*padded, -1))
    return np.asarray(A)[: len(X)], np.asarray(R)[:blocks, :width, :width]
