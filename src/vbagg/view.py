"""How outputs of a further kind see the latent function: `f_own = base_own + a + b (f - base)`, MATH (21).

The mean `a` is one of the weights, behind those of the function; the slope `b` is fixed, or learnt with the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from vbagg.moments import Pixels

Array = jax.Array
SLOPE = "slope"
"""Name of a learnt slope."""


@dataclass(frozen=True)
class View:
    """That of the model's own outputs by default, which see the function as it is."""

    prefix: str = ""
    """Begins the names of its parameters, among those of all kinds of outputs."""
    mean: int | None = None
    """Which of the own means it has."""
    mean_sd: float = 0.0
    """Prior sd of that."""
    slope: float | None = 1.0
    """None where it is learnt."""

    @property
    def is_plain(self) -> bool:
        """Whether the function is seen as it is."""
        return self.mean is None and self.slope == 1.0

    def seen(self, staged: Pixels, p: dict[str, Array], own_means: int) -> Pixels:
        """Features and residuals of individuals as outputs of this kind see them."""
        if self.is_plain:
            return staged
        slope = jnp.asarray(jnp.exp(p[self.prefix + SLOPE]) if self.slope is None else self.slope, staged.A.dtype)
        A = slope * staged.A
        if self.mean is not None:
            A = A.at[..., self.mean - own_means].set(self.mean_sd)
        block = staged.block_residual
        return replace(
            staged,
            A=A,
            residual_diagonal=slope**2 * staged.residual_diagonal,
            own_residual=slope**2 * staged.own_residual,
            block_residual=None if block is None else slope**2 * block,
        )


PLAIN = View()
"""That of the model's own outputs."""
