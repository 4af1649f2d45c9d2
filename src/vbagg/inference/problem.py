"""A fitting problem: sums over portions of the bags, and nothing `n`-sized outside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import jax
import numpy as np

from vbagg.chunks import Chunk
from vbagg.elbo import Parameters, Spec
from vbagg.exact import total
from vbagg.features import JITTER, SINGLE_JITTER, Basis, feature_count, needed_jitter
from vbagg.held import Division, Held, Here
from vbagg.inference import passes
from vbagg.inference.gaussian import Gaussian
from vbagg.inference.sums import Setting, Sums
from vbagg.latent import slope_in_factor
from vbagg.representatives import Numbers

LARGEST_SCALE = 10.0
"""Factor by which the residual variance of representatives is corrected at most."""
LONG = 2e11
"""Products of a feature with a weight, over all passes, from which single precision is worth its rounding."""
_settings = count()


class Evaluation(NamedTuple):
    """ELBO, gradients of its data term in mean and triangular factor, and the data term of each bag."""

    elbo: float
    d_mu: np.ndarray
    d_factor: np.ndarray
    terms: np.ndarray


class Problem:
    """Sums over portions for one model and data set.

    Parameters
    ----------
    spec
        What is computed.
    sums
        Of each portion of the bags.
    division
        Which bags these are.
    n_features
        Columns of `A`.
    size
        Sum of the sizes of all outputs.
    single
        Whether features are in single precision.
    """

    def __init__(
        self, spec: Spec, sums: Held[Sums], division: Division, n_features: int, size: float, single: bool = False
    ) -> None:
        self.spec, self.sums, self.division, self.n_features, self.single = spec, sums, division, n_features, single
        self.n_bags = sum(map(len, division.positions))
        self.size = size
        self.rough: Problem | None = None
        """The same bags with fewer individuals, where parameters may be searched for."""
        self.evaluations = 0
        self.max_jitter = 0.0

    @classmethod
    def here(cls, spec: Spec, chunks: list[Chunk], landmarks: tuple[Any, ...], memory: float) -> Problem:
        """Of chunks in this process."""
        n_features = feature_count(landmarks, spec.feature_map)
        n_bags = int(sum(np.sum(chunk.valid) for chunk in chunks))
        size = float(sum(np.sum(chunk.valid * np.abs(chunk.y)) for chunk in chunks))
        single = chunks[0].X.dtype == np.float32
        sums = Here([Sums(spec, chunks, n_features, memory)])
        return cls(spec, sums, Division.whole(n_bags), n_features, size, single)

    @classmethod
    def joined(cls, problems: Sequence[Problem]) -> Problem:
        """Bags of several kinds of outputs, those of the model's own first; more than one kind are in this process."""
        first, *others = problems
        if not others:
            return first
        starts = np.cumsum([0, *(own.n_bags for own in problems)])
        positions = [at + start for own, start in zip(problems, starts, strict=False) for at in own.division.positions]
        sums = Here([part for own in problems for part in own._here])
        size = sum(own.size for own in problems)
        return cls(first.spec, sums, Division(tuple(positions)), first.n_features, size, first.single)

    def bare(self) -> Problem:
        """The same without what was staged, or made ready for a search."""
        sums = Here([Sums(own.spec, own.chunks, own.n_features, own.memory) for own in self._here])
        return Problem(self.spec, sums, self.division, self.n_features, self.size, self.single)

    def by_draws(self, n_draws: int) -> Problem:
        """The same in double precision, with expectations from so many fixed draws where they are not exact."""

        def drawn(own: Sums) -> Sums:
            exact = own.spec.likelihood.exact
            spec = own.spec if exact else replace(own.spec, approximation="montecarlo", n_draws=n_draws)
            chunks = [replace(chunk, X=np.asarray(chunk.X, np.float64)) for chunk in own.chunks]
            return Sums(spec, chunks, own.n_features, 0.0)

        sums = [drawn(own) for own in self._here]
        return Problem(sums[0].spec, Here(sums), self.division, self.n_features, self.size)

    @property
    def noise(self) -> float:
        """Rounding of float32 sums over individuals, in nats."""
        return 1e-10 * self.size

    def represent(self, numbers: Numbers, build: Callable[[np.ndarray], Problem], first: Problem) -> None:
        """Let parameters be searched for with fewer individuals: `first`, or those that `build` makes of numbers."""
        self._numbers, self._build, self.rough = numbers, build, first

    def refine(self, error: np.ndarray, gap: float, last_error: float) -> bool:
        """More representatives where the data terms of bags are off, if the ELBO is too; whether there are any."""
        if self.rough is None or not self._numbers.refine(error, gap, last_error):
            return False
        finer = self._build(self._numbers.number)
        finer.evaluations, finer.max_jitter = self.rough.evaluations, self.rough.max_jitter
        self.rough = finer
        return True

    def scale_residuals(self, staged: StagedProblem, q: Gaussian) -> None:
        """Let the totals of representatives have the residual variance of all individuals, `staged`, at this `q`.

        Means of groups lie nearer to landmarks than individuals do, so that less of their variation is residual.
        """
        rough = self.rough
        assert rough is not None
        few, _ = rough.at(staged.parameters, staged.jitter).spreads(q)
        before = rough.division.join(rough.sums.each(Sums.residual_scales))
        scale = before * (staged.spreads(q)[0] / np.maximum(few, 1e-12)) ** 2
        scale = np.clip(scale, 1 / LARGEST_SCALE, LARGEST_SCALE)
        rough.sums = rough.sums.made(Sums.with_residual_scales, own=rough.division.split(scale))

    @property
    def chunks(self) -> list[Chunk]:
        """Of all bags, where they are in this process."""
        return [chunk for own in self._here for chunk in own.chunks]

    @property
    def _here(self) -> list[Sums]:
        if not isinstance(self.sums, Here):
            raise ValueError("inference 'adam' needs all individuals in one process; 'newton' works with `client`.")
        return self.sums.objects

    @property
    def parts(self) -> list[Problem]:
        """The problem itself and its rough one."""
        return [self] if self.rough is None else [self, self.rough]

    @property
    def products(self) -> int:
        """Products of a feature with a weight in one pass over all individuals."""
        return sum(self.sums.each(Sums.padded_individuals)) * self.n_features**2

    def some_rows(self, most: int) -> np.ndarray:
        """Features of individuals all over the data: evenly spaced bags, of each of them as many individuals."""
        wanted = np.zeros(self.n_bags, bool)
        wanted[:: -(-self.n_bags // most)] = True
        per_bag = max(1, most // int(wanted.sum()))
        return np.concatenate(self.sums.each(Sums.some_rows, per_bag, own=self.division.split(wanted)))

    def at(self, parameters: Parameters, jitter: tuple[float, ...] | None = None) -> StagedProblem:
        """The problem for given kernel and likelihood parameters; jitter as small as they allow if not given."""
        feature_map = self.spec.feature_map
        if jitter is None:
            least = SINGLE_JITTER if self.single else JITTER
            jitter = needed_jitter(feature_map, parameters.kernel, parameters.landmarks, least)
        self.max_jitter = max(self.max_jitter, *jitter)
        return StagedProblem(self, Setting(feature_map, parameters, jitter, next(_settings)))


class StagedProblem:
    """A problem with its parameters fixed: functions of `q` alone."""

    def __init__(self, problem: Problem, setting: Setting) -> None:
        self.problem, self.spec, self.setting = problem, problem.spec, setting
        self._sums = problem.sums
        self._last: tuple[Gaussian, Evaluation] | None = None

    @property
    def basis(self) -> Basis:
        """Factorised kernels."""
        return self.setting.basis

    @property
    def parameters(self) -> Parameters:
        """Kernel and likelihood parameters."""
        return self.setting.parameters

    @property
    def jitter(self) -> tuple[float, ...]:
        """Relative jitter of each component."""
        return self.setting.jitter

    def evaluate(self, q: Gaussian) -> Evaluation:
        """ELBO and slopes; the last result is kept."""
        if self._last is not None and self._last[0] is q:
            return self._last[1]
        self.problem.evaluations += 1
        slopes, terms = zip(*self._sums.each(Sums.slopes, self.setting, q), strict=True)
        d_mu, d_factor, product = total(slopes)
        if product.ndim:
            d_factor = d_factor + slope_in_factor(q.factor, product)
        of_bags = self.problem.division.join(terms)
        found = Evaluation(float(of_bags.sum()) - q.kl(), d_mu, np.tril(d_factor), of_bags)
        self._last = q, found
        return found

    def spreads(self, q: Gaussian) -> tuple[np.ndarray, np.ndarray]:
        """Sd of each total's residual and of its output's noise (b), relative to the total."""
        residual, noise = self.problem.division.join(self._sums.each(Sums.spreads, self.setting, q)).T
        return residual, noise

    def elbo(self, q: Gaussian) -> float:
        """ELBO alone."""
        return float(total(self._sums.each(Sums.value, self.setting, q))) - q.kl()

    def gauss_newton(self, v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Log posterior of the weights at `v`, its gradient, and the Gauss-Newton precision."""
        value, slope, information = total(self._sums.each(Sums.gauss_newton, self.setting, v))
        return float(value) - 0.5 * float(v @ v), slope - v, information + np.eye(len(v))

    def precision(self, v: np.ndarray) -> np.ndarray:
        """The Gauss-Newton precision alone."""
        if self.problem.rough is None:
            return self.gauss_newton(v)[2]  # which a search has compiled
        return total(self._sums.each(Sums.information, self.setting, v)) + np.eye(len(v))

    def precision_under(self, q: Gaussian) -> np.ndarray:
        """The Gauss-Newton precision at the mean of `q`; what bounds of outputs tell is averaged over `q`."""
        if not any(self._sums.each(Sums.is_bounded)):
            return self.precision(q.mu)
        return total(self._sums.each(Sums.information_under, self.setting, q)) + np.eye(len(q.mu))

    def parameter_slopes(self, q: Gaussian) -> Parameters:
        """Partial gradient of the ELBO in the parameters; the total one where `q` is optimal."""
        parameters = self.parameters
        of_basis, likelihood = total(self._sums.each(Sums.basis_slopes, self.setting, q))
        kernel, landmarks = passes.through_basis(
            self.spec.feature_map, parameters.kernel, parameters.landmarks, self.jitter, of_basis
        )
        return jax.tree.map(np.asarray, Parameters(kernel, likelihood, landmarks))
