"""Sums over the individuals of one portion of the bags, for parameters and `q` that the rest of a fit decides on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from threading import Lock
from typing import Any

import jax
import numpy as np

from vbagg.chunks import Chunk, gather, gather_rows
from vbagg.elbo import Parameters, Spec, Staged
from vbagg.exact import Exact, summed
from vbagg.features import Basis, FeatureMap, compiled_basis
from vbagg.headroom import headroom
from vbagg.inference import passes
from vbagg.inference.gaussian import Gaussian
from vbagg.latent import slopes_through_latent, with_latent
from vbagg.threads import in_threads


@dataclass(frozen=True)
class Setting:
    """Kernel and likelihood parameters at which sums are asked for, with a number of their own."""

    feature_map: FeatureMap
    parameters: Parameters
    jitter: tuple[float, ...]
    number: int

    @cached_property
    def basis(self) -> Basis:
        """Factorised kernels."""
        return compiled_basis(self.feature_map, self.parameters.kernel, self.parameters.landmarks, self.jitter)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Sums:
    """Chunks of bags, and sums over them.

    Parameters
    ----------
    spec
        What is computed.
    chunks
        The bags.
    n_features
        Columns of `A`.
    memory
        Bytes that staged chunks may keep; beyond it, or where this process has a limit that they would come near,
        they are staged anew at each pass.
    """

    def __init__(self, spec: Spec, chunks: list[Chunk], n_features: int, memory: float) -> None:
        self.spec, self.chunks, self.n_features, self.memory = spec, chunks, n_features, memory
        self.collapse = [self._worth_collapsing(chunk) for chunk in chunks]
        self.forget()

    def forget(self) -> None:
        """Keep no staged chunks."""
        self._number, self._kept, self._bytes, self._staging = -1, dict[int, Staged](), 0, Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.forget()

    def _worth_collapsing(self, chunk: Chunk) -> bool:
        if self.spec.approximation not in ("matched", "taylor") or not self.spec.view.is_plain:
            return False
        if self.spec.link.bag_sums == "linear":
            return True
        if self.spec.link.bag_sums != "quadratic" or chunk.residual != "exact":
            return False
        n, m = chunk.shape[1], self.n_features
        statistics = 16 * m * m * sum(len(c.y) for c in self.chunks if c.residual == "exact")
        return 2 * m**3 < n * m * m + n * n * m and statistics < self.memory

    # facts

    def padded_individuals(self) -> int:
        """Rows of all chunks, padding counted."""
        return sum(chunk.weight.size for chunk in self.chunks)

    def sizes(self) -> np.ndarray:
        """Rows of each bag (b)."""
        return self._by_bag([_sizes(chunk) for chunk in self.chunks]).astype(np.intp)

    def residual_scales(self) -> np.ndarray:
        """What multiplies the residual's variance of each total (b)."""
        return self._by_bag([chunk.residual_scale for chunk in self.chunks])

    def with_residual_scales(self, scale: np.ndarray) -> Sums:
        """The same bags with other factors (b)."""

        def scaled(chunk: Chunk) -> Chunk:
            own = np.where(chunk.position < 0, 1.0, scale[np.maximum(chunk.position, 0)])
            return replace(chunk, residual_scale=own)

        return Sums(self.spec, [scaled(chunk) for chunk in self.chunks], self.n_features, self.memory)

    def some_rows(self, per_bag: int, wanted: np.ndarray) -> np.ndarray:
        """Features of so many individuals of each wanted bag, evenly spaced in the order of its rows."""
        columns = [gather_rows([chunk.X[..., d] for chunk in self.chunks], self.chunks) for d in range(self._columns)]
        sizes = self.sizes()
        starts = np.cumsum(sizes) - sizes
        at = [start + np.arange(0, n, -(-n // per_bag)) for start, n in zip(starts[wanted], sizes[wanted], strict=True)]
        return np.stack(columns, axis=1)[np.concatenate([np.zeros(0, np.intp), *at])]

    @property
    def _columns(self) -> int:
        return self.chunks[0].X.shape[-1]

    def _by_bag(self, parts: list[Any]) -> np.ndarray:
        return gather(parts, self.chunks)

    # sums

    def slopes(self, setting: Setting, q: Gaussian) -> tuple[Exact, np.ndarray]:
        """Slopes of the data term in mean and factor `C`, a part of the latter as `C^T dC`; terms of bags."""
        terms: list[np.ndarray] = []

        def slopes() -> Iterator[Any]:
            for own, of_chunk in self._each(setting, partial(self._slopes, setting, q)):
                terms.append(of_chunk)
                yield own

        total = summed(slopes())
        return total, self._by_bag(terms)

    def _slopes(self, setting: Setting, q: Gaussian, index: int) -> tuple[tuple[Any, ...], np.ndarray]:
        ((d_mu, d_factor, d_latent), terms), staged, F = self._at_q(setting, passes.terms_and_slopes, q, index)
        if F is None:
            return (d_mu, d_factor, 0.0), terms
        by_mean, product = slopes_through_latent(staged.moments, F, d_latent)
        return (d_mu + by_mean, d_factor, product), terms

    def spreads(self, setting: Setting, q: Gaussian) -> np.ndarray:
        """Sd of each total's residual and of its output's noise (b, 2), relative to the total."""
        return self._by_bag(list(self._each(setting, lambda i: self._at_q(setting, passes.spreads, q, i)[0])))

    def value(self, setting: Setting, q: Gaussian) -> Exact:
        """The data term."""
        return summed(self._each(setting, lambda i: self._at_q(setting, passes.value, q, i)[0]))

    def gauss_newton(self, setting: Setting, v: np.ndarray) -> Exact:
        """Log density of the outputs at the weights `v`, its slope, and the Fisher information."""
        return self._given_weights(setting, passes.gauss_newton, v)

    def information(self, setting: Setting, v: np.ndarray) -> Exact:
        """The Fisher information alone."""
        return self._given_weights(setting, passes.information, v)

    def information_under(self, setting: Setting, q: Gaussian) -> Exact:
        """What outputs tell `q`."""
        return summed(self._each(setting, lambda i: self._at_q(setting, passes.information_under, q, i)[0]))

    def is_bounded(self) -> bool:
        """Whether some outputs are known within bounds only."""
        return self.spec.likelihood.bounded

    def basis_slopes(self, setting: Setting, q: Gaussian) -> Exact:
        """Slopes of the data term in the basis and in the likelihood's parameters."""
        p = setting.parameters.likelihood

        def slopes(chunk: Chunk, known: Any) -> Any:
            return passes.basis_slopes(self.spec, setting.basis, p, chunk, q.mu, q.factor, known)

        self._begin(setting)
        return summed(slopes(chunk, self._features(setting, i)) for i, chunk in enumerate(self.chunks))

    def _features(self, setting: Setting, index: int) -> Any:
        """Features of a chunk, kept or not: slopes do not depend on the memory; None where these are not staged."""
        known = self.spec.view.is_plain and not self.collapse[index]
        return self._staged(setting, index).moments.A if known else None

    def _given_weights(self, setting: Setting, function: Any, v: np.ndarray) -> Exact:
        p = setting.parameters.likelihood
        return summed(self._each(setting, lambda i: function(self.spec, p, self._staged(setting, i), v)))

    def _at_q(self, setting: Setting, function: Any, q: Gaussian, index: int) -> tuple[Any, Staged, Any]:
        """Result of a compiled function of `q`, the staged chunk, and `F` where it was worked out outside."""
        staged, F = self._staged(setting, index), None
        if self._outside(index):
            moments, F = with_latent(staged.moments, q.mu, q.factor)
            staged = replace(staged, moments=moments)
        found = function(self.spec, setting.parameters.likelihood, staged, q.mu, q.factor)
        return jax.tree.map(np.asarray, found), staged, F

    def _each(self, setting: Setting, function: Callable[[int], Any]) -> Iterator[Any]:
        """Results of a function for each chunk; those of larger bags, which have one shape, several at a time."""
        self._begin(setting)
        yield from in_threads(function, range(len(self.chunks)), lambda i: -1 if self._outside(i) else i)

    def _begin(self, setting: Setting) -> None:
        """Forget what was staged for other parameters."""
        if setting.number != self._number:
            self.forget()
            self._number = setting.number

    def _outside(self, index: int) -> bool:
        """Whether the latent values of a chunk are worked out outside compiled functions."""
        tiled = self.chunks[index].tiles is not None and not self.collapse[index]
        return tiled and self.spec.approximation != "montecarlo"

    def _staged(self, setting: Setting, index: int) -> Staged:
        if index in self._kept:
            return self._kept[index]
        chunk, collapse = self.chunks[index], self.collapse[index]
        p = None if self.spec.view.is_plain else setting.parameters.likelihood
        with self._staging:  # one at a time: what is needed meanwhile takes more room than the result
            staged = jax.block_until_ready(passes.compiled_stage(self.spec, setting.basis, chunk, collapse, p))
            size = sum(leaf.nbytes for leaf in jax.tree.leaves(staged))
            if self._bytes + size <= self.memory and size <= headroom():
                self._kept[index] = staged
                self._bytes += size
        return staged


def _sizes(chunk: Chunk) -> np.ndarray:
    """Rows of each bag of a chunk that are no padding."""
    inside = np.sum(chunk.rows >= 0, axis=1)
    return inside if chunk.tiles is None else np.bincount(chunk.tiles.owner, inside, len(chunk.y))
