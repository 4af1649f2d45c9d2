"""A fitted latent function: everything that predictions need, and nothing of the training data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.bags import Bags
from vbagg.chunks import Chunk, make_chunks
from vbagg.elbo import Parameters, Spec
from vbagg.features import Basis, compiled_basis
from vbagg.inference import Gaussian
from vbagg.laws import Law, Mixture
from vbagg.models import setup
from vbagg.posterior import (
    RATE_LAWS,
    TOTAL_LAWS,
    BagPosterior,
    Posterior,
    bag_moments,
    draw_bags,
    draw_rows,
    row_marginals,
)
from vbagg.scaling import Scaler


@dataclass(frozen=True)
class Member:
    """Learnt parameters and posterior of the weights; several of them make an average."""

    weight: float
    spec: Spec
    parameters: Parameters
    q: Gaussian
    jitter: tuple[float, ...]

    @cached_property
    def basis(self) -> Basis:
        """Factorised kernels."""
        with jax.enable_x64(True):
            parameters = self.parameters
            return compiled_basis(self.spec.feature_map, parameters.kernel, parameters.landmarks, self.jitter)

    @property
    def state(self) -> tuple[Spec, Basis, np.ndarray, np.ndarray]:
        """What a prediction takes."""
        return self.spec, self.basis, self.q.mu, self.q.factor

    def learnt(self, rate_scale: float) -> dict[str, float]:
        """Likelihood parameters in the user's units."""
        values = {name: float(np.exp(value)) for name, value in self.parameters.likelihood.items()}
        if "tau" in values:
            values["tau"] *= rate_scale**2
        return values


@dataclass(frozen=True)
class Fitted:
    """Standard units, scale of the rate, and the members of the posterior."""

    members: tuple[Member, ...]
    scaler: Scaler
    rate_scale: float
    base: float
    feature_names: tuple[str, ...]
    named: bool
    residual: str
    memory: float
    random_state: int

    @property
    def spec(self) -> Spec:
        """What was computed."""
        return self.members[0].spec

    def posterior(self, X: Any, offset: Any) -> Posterior:
        """Posterior of the rate of individuals."""
        rows = self._check_rows(X)
        link, scale = self.spec.link, self.rate_scale
        known = setup.latent_offset(link, _check_offset(offset, len(rows)), scale, self.base)

        def law(member: Member) -> Law:
            mean, variance = row_marginals(*member.state, rows, known)
            return RATE_LAWS[link.name](mean, np.sqrt(variance), scale=scale)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            return scale * draw_rows(*member.state, rows, known, n, seed)

        return Posterior(self._mixed(law), self._mixed_draws(draw))

    def posterior_bags(self, bags: Bags, offset: Any) -> BagPosterior:
        """Posterior of the totals of bags."""
        return self._bag_posterior(self._bag_chunks(bags, offset))

    def predictive_bags(self, bags: Bags, trials: Any, offset: Any) -> Posterior:
        """Law of a new output of each bag."""
        likelihood, link = self.spec.likelihood, self.spec.link.name
        if likelihood.name == "binomial" and trials is None:
            raise ValueError("likelihood 'binomial' needs `trials`: the number examined in each bag.")
        chunks = self._bag_chunks(bags, offset)
        aux = setup.auxiliary(bags.drop_zero_weight(), likelihood, setup.check_trials(bags, trials, likelihood))

        def law(member: Member) -> Law:
            M, V, _ = bag_moments(*member.state, chunks)
            return likelihood.predictive(M, V, link, aux, member.learnt(self.rate_scale))

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            totals = draw_bags(*member.state, chunks, n, seed)
            return likelihood.simulate(totals, aux, member.learnt(self.rate_scale), np.random.default_rng([seed, 1]))

        return Posterior(self._mixed(law), self._mixed_draws(draw))

    def standardised(self, bags: Bags, offset: np.ndarray) -> tuple[Bags, np.ndarray]:
        """Bags in standard units, weights in units of the overall rate, and the known part of `f` of their rows."""
        link = self.spec.link
        weight = setup.bag_weights(bags, link).weight * self.rate_scale
        known = setup.latent_offset(link, offset, self.rate_scale, self.base)
        return bags.with_arrays(self.scaler.forward(bags.X), weight), known

    def check_bags(self, bags: Any) -> None:
        """Refuse what is not bags with the columns of the training data."""
        setup.check_is_bags(bags)
        self._check_columns(bags)

    def _bag_chunks(self, bags: Bags, offset: Any) -> list[Chunk]:
        self.check_bags(bags)
        used, rows_offset = setup.drop_inert(bags, offset)
        ones = np.ones(len(bags))
        ready, known = self.standardised(used, rows_offset)
        return make_chunks(ready, ones, ones, known, self.residual, random_state=self.random_state)

    def _bag_posterior(self, chunks: list[Chunk]) -> BagPosterior:
        moments: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

        def law(member: Member) -> Law:
            moments[id(member)] = M, V, _ = bag_moments(*member.state, chunks)
            return TOTAL_LAWS[self.spec.link.name].from_moments(M, V)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            return draw_bags(*member.state, chunks, n, seed)

        mixed = self._mixed(law)

        def covariance() -> np.ndarray:
            total = np.zeros((len(mixed), len(mixed)))
            for member in self.members:
                M, V, directions = moments[id(member)]
                root = directions @ member.q.factor
                with jax.enable_x64(True):
                    mean, first_order = jnp.asarray(M), jnp.asarray(root @ root.T)
                    within = np.array(self.spec.link.total_covariance(mean[:, None], mean[None, :], first_order))
                within[np.diag_indices_from(within)] = V
                total += member.weight * (within + np.outer(M - mixed.mean, M - mixed.mean))
            return total

        return BagPosterior(mixed, self._mixed_draws(draw), covariance)

    def _mixed(self, law: Callable[[Member], Law]) -> Law:
        with jax.enable_x64(True):
            laws = [law(member) for member in self.members]
        return laws[0] if len(laws) == 1 else Mixture(laws, [member.weight for member in self.members])

    def _mixed_draws(self, draw: Callable[[Member, int, int], np.ndarray]) -> Callable[[int, int], np.ndarray]:
        """Joint draws: each picks one member."""

        def mixed(n: int, seed: int) -> np.ndarray:
            weights = [member.weight for member in self.members]
            counts = np.random.default_rng([seed, 2]).multinomial(n, weights)
            with jax.enable_x64(True):
                parts = [
                    draw(member, int(count), seed) for member, count in zip(self.members, counts, strict=True) if count
                ]
            return np.random.default_rng([seed, 3]).permutation(np.concatenate(parts)) if len(parts) > 1 else parts[0]

        return mixed

    def _check_rows(self, X: Any) -> np.ndarray:
        rows = Bags(X, np.zeros(len(X), dtype=int))
        self._check_columns(rows)
        return self.scaler.forward(rows.X)

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
