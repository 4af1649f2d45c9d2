"""A fitted latent function: everything that predictions need, and nothing of the training data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from vbagg.likelihoods import Likelihood
from vbagg.models import setup
from vbagg.models.frame import Frame, drop_inert
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


@dataclass(frozen=True)
class Member:
    """Learnt parameters and posterior of the weights; several of them make an average."""

    weight: float
    spec: Spec
    parameters: Parameters
    q: Gaussian
    jitter: tuple[float, ...]
    single: bool = False
    """Whether features of individuals are in single precision, as they were in the fit."""

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
        return in_users_units(self.parameters.likelihood, rate_scale)


def in_users_units(log_parameters: Mapping[str, Any], rate_scale: float) -> dict[str, float]:
    """Likelihood parameters from their logarithms in the units of training."""
    values = {name: float(np.exp(value)) for name, value in log_parameters.items()}
    if "tau" in values:
        values["tau"] *= rate_scale**2
    return values


@dataclass(frozen=True)
class Fitted:
    """Units and the members of the posterior."""

    members: tuple[Member, ...]
    frame: Frame
    residual: str
    random_state: int

    @property
    def spec(self) -> Spec:
        """What was computed."""
        return self.members[0].spec

    @property
    def likelihood(self) -> Likelihood:
        """Density of a bag's output."""
        return self.spec.likelihood

    @property
    def rate_scale(self) -> float:
        """Overall rate, by which rates are scaled."""
        return self.frame.rate_scale

    def learnt(self) -> dict[str, float]:
        """Likelihood parameters of the first member in the user's units."""
        return self.members[0].learnt(self.rate_scale)

    def posterior(self, X: Any, offset: Any) -> Posterior:
        """Posterior of the rate of individuals."""
        rows = self.frame.rows(X)
        link, scale = self.spec.link, self.rate_scale
        known = self.frame.known_of_rows(offset, len(rows))

        def law(member: Member) -> Law:
            mean, variance = row_marginals(*member.state, rows, known, member.single)
            return RATE_LAWS[link.name](mean, np.sqrt(variance), scale=scale)

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            return scale * draw_rows(*member.state, rows, known, n, seed)

        return Posterior(self._mixed(law), self._mixed_draws(draw))

    def posterior_bags(self, bags: Bags, offset: Any) -> BagPosterior:
        """Posterior of the totals of bags."""
        return self._bag_posterior(self._bag_chunks(bags, offset))

    def predictive_bags(self, bags: Bags, trials: Any, offset: Any) -> Posterior:
        """Law of a new output of each bag."""
        likelihood, link = self.likelihood, self.spec.link.name
        self.frame.check_bags(bags)
        aux = setup.predictive_auxiliary(bags, likelihood, trials)
        chunks = self._bag_chunks(bags, offset)

        def law(member: Member) -> Law:
            M, V, _ = bag_moments(*member.state, chunks)
            return likelihood.predictive(M, V, link, aux, member.learnt(self.rate_scale))

        def draw(member: Member, n: int, seed: int) -> np.ndarray:
            totals = draw_bags(*member.state, chunks, n, seed)
            return likelihood.simulate(totals, aux, member.learnt(self.rate_scale), np.random.default_rng([seed, 1]))

        return Posterior(self._mixed(law), self._mixed_draws(draw))

    def _bag_chunks(self, bags: Bags, offset: Any) -> list[Chunk]:
        self.frame.check_bags(bags)
        used, rows_offset = drop_inert(bags, offset)
        ones = np.ones(len(bags))
        ready, known = self.frame.standardised(used, rows_offset)
        n_columns = max(len(member.q.mu) for member in self.members)
        return make_chunks(ready, ones, ones, known, self.residual, random_state=self.random_state, n_columns=n_columns)

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
