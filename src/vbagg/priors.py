"""Log prior density of all learnt parameters, with its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import jax
import jax.numpy as jnp

from vbagg import kernels
from vbagg.compiling import jit
from vbagg.elbo import Parameters
from vbagg.kernels import PRIOR_NAMES, Kernel, Prior
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.base import Likelihood
from vbagg.links import Link, get_link


@dataclass(frozen=True)
class LogPrior:
    """Sum of log-normal prior densities; priors as sorted items, so that it is hashable."""

    components: tuple[Kernel, ...]
    of_kernels: tuple[tuple[str, Prior], ...] = ()
    of_likelihood: tuple[tuple[str, Prior], ...] = ()

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        """Value and gradient."""
        value, slopes = _value_and_slopes(self, parameters)
        return float(value), slopes

    def density(self, parameters: Parameters) -> jax.Array:
        """Log density of the log-parameters."""
        total = jnp.zeros(())
        for component, log_params in zip(self.components, parameters.kernel, strict=True):
            total += kernels.log_prior(component, log_params, dict(self.of_kernels))
        for name, prior in self.of_likelihood:
            if name in parameters.likelihood:
                total += jnp.sum(prior.log_density(parameters.likelihood[name]))
        return total


@jit(static_argnums=0)
def _value_and_slopes(log_prior: LogPrior, parameters: Parameters) -> tuple[jax.Array, Parameters]:
    return jax.value_and_grad(log_prior.density)(parameters)


def kernel_priors(link: Link) -> dict[str, Prior]:
    """Weak default priors of kernel parameters: median and sd of the logarithm.

    - `variance` of a kernel: the link's `typical_variance` and 1; `linear`, each variance of a `Linear`: a third of it
      and 1.5; `white`, that of an individual effect: the link's `individual_variance` and 1.5
    - `lengthscale`: 1 and 1, in multiples of the typical distance sqrt(2 d) of d standardised columns, 0.3 of it for
      the rough Matern kernels
    - `period`: 1 and 0.5, in multiples of the starting period
    """
    typical = link.typical_variance
    return {
        "variance": Prior(typical, 1.0),
        "linear": Prior(typical / 3, 1.5),
        "white": Prior(link.individual_variance, 1.5),
        "lengthscale": Prior(1.0, 1.0),
        "period": Prior(1.0, 0.5),
    }


def default_priors(likelihood: str | Likelihood, link: str) -> dict[str, Prior]:
    """All default priors of a model: `kernel_priors` of the link, and those of the likelihood's own parameters."""
    return kernel_priors(get_link(link)) | get_likelihood(likelihood).priors()


def make_log_prior(
    components: tuple[Kernel, ...],
    priors: str | Mapping[str, Prior] | None,
    likelihood: Likelihood,
    link: Link,
    further: Mapping[str, Prior] = MappingProxyType({}),
) -> LogPrior:
    """Log prior from `"default"`, None, or a mapping that replaces some of the defaults (None drops one).

    `further` are the defaults of parameters of other kinds of outputs.
    """
    if priors is None:
        return LogPrior(components)
    known = default_priors(likelihood, link.name) | dict(further)
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
    of_kernels = {name: prior for name, prior in known.items() if name in PRIOR_NAMES}
    of_likelihood = {name: prior for name, prior in known.items() if name not in PRIOR_NAMES}
    return LogPrior(components, tuple(sorted(of_kernels.items())), tuple(sorted(of_likelihood.items())))
