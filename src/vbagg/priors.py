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


def default_priors() -> dict[str, Prior]:
    """Weak default priors on kernel parameters (standardised units) and likelihood parameters."""
    return kernels.default_priors() | LIKELIHOOD_PRIORS


def make_log_prior(components: tuple[Kernel, ...], priors: str | Mapping[str, Prior] | None) -> LogPrior:
    """Log prior from `"default"`, None, or a mapping that replaces some of the defaults (None drops one)."""
    if priors is None:
        return LogPrior(components, None)
    known = default_priors()
    if priors != "default":
        if isinstance(priors, str) or not isinstance(priors, Mapping):
            raise ValueError(
                f"`priors` must be 'default', None or a mapping of names to Prior; got {priors!r}."
            )
        unknown = sorted(set(priors) - set(known))
        if unknown:
            raise ValueError(f"`priors` must have names among {', '.join(known)}; got {', '.join(unknown)}.")
        known = {name: prior for name, prior in (known | dict(priors)).items() if prior is not None}
    return LogPrior(components, tuple(sorted(known.items())))
