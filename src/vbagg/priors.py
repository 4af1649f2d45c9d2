"""Log prior density of all learnt parameters, with its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from vbagg import kernels
from vbagg.elbo import Parameters
from vbagg.kernels import Kernel, Prior

LIKELIHOOD_PRIORS = {"tau": Prior(1.0, 3.0), "dispersion": Prior(0.3, 1.5)}
TYPICAL_VARIANCE = {"exp": 0.3, "square": 0.1, "logistic": 1.0, "identity": 1.0}
"""Variance of `f` with which rates vary by about 60% (exp, square), odds by a factor of 2.7, or as bag means do."""


@dataclass(frozen=True)
class LogPrior:
    """Sum of log-normal prior densities; `priors` as sorted items, so that it is hashable."""

    components: tuple[Kernel, ...]
    priors: tuple[tuple[str, Prior], ...] | None

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        """Value and gradient."""
        value, slopes = _value_and_slopes(self, parameters)
        return float(value), slopes

    def density(self, parameters: Parameters) -> jax.Array:
        """Log density of the log-parameters."""
        total = jnp.zeros(())
        if self.priors is None:
            return total
        priors = dict(self.priors)
        of_kernels = {name: prior for name, prior in priors.items() if name not in LIKELIHOOD_PRIORS}
        for component, log_params in zip(self.components, parameters.kernel, strict=True):
            total += kernels.log_prior(component, log_params, of_kernels)
        for name, value in parameters.likelihood.items():
            if name in priors:
                total += jnp.sum(priors[name].log_density(value))
        return total


@partial(jax.jit, static_argnums=0)
def _value_and_slopes(log_prior: LogPrior, parameters: Parameters) -> tuple[jax.Array, Parameters]:
    return jax.value_and_grad(log_prior.density)(parameters)


def default_priors(link: str) -> dict[str, Prior]:
    """Weak default priors: median and sd of the logarithm.

    - `variance` of a kernel: `TYPICAL_VARIANCE` of the link and 1; `linear`, each variance of a `Linear`: a third of
      that and 1.5
    - `lengthscale`: 1 and 1, in multiples of the typical distance sqrt(2 d) of d standardised columns, 0.3 of it for
      the rough Matern kernels
    - `period`: 1 and 0.5, in multiples of the starting period
    - `dispersion` of the negative binomial: 0.3 and 1.5; `tau` of the Normal: 1 and 3, in squared units of bag means
    """
    typical = TYPICAL_VARIANCE[link]
    of_kernels = {
        "variance": Prior(typical, 1.0),
        "linear": Prior(typical / 3, 1.5),
        "lengthscale": Prior(1.0, 1.0),
        "period": Prior(1.0, 0.5),
    }
    return of_kernels | LIKELIHOOD_PRIORS


def make_log_prior(components: tuple[Kernel, ...], priors: str | Mapping[str, Prior] | None, link: str) -> LogPrior:
    """Log prior from `"default"`, None, or a mapping that replaces some of the defaults (None drops one)."""
    if priors is None:
        return LogPrior(components, None)
    known = default_priors(link)
    if priors != "default":
        if isinstance(priors, str) or not isinstance(priors, Mapping):
            raise ValueError(f"`priors` must be 'default', None or a mapping of names to Prior; got {priors!r}.")
        unknown = sorted(set(priors) - set(known))
        if unknown:
            raise ValueError(f"`priors` must have names among {', '.join(known)}; got {', '.join(unknown)}.")
        for name, prior in priors.items():
            if prior is not None and not isinstance(prior, Prior):
                raise TypeError(f"`priors[{name!r}]` must be a vbagg.Prior or None; got {prior!r}.")
        known = {name: prior for name, prior in (known | dict(priors)).items() if prior is not None}
    return LogPrior(components, tuple(sorted(known.items())))
