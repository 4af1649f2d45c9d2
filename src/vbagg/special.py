"""Special functions of JAX arrays: elementwise, differentiable, in the dtype of the input.

Dawson's integral and ``E log f^2`` come from one Chebyshev series in a rational variable that maps
``[0, inf]`` to ``[-1, 1]``, so neither has switch points. Gaussian means of the logistic family are a
closed-form probit part plus a trapezoid sum over a small localised remainder; their derivatives follow from
the heat equation ``d/dS E g(f) = 1/2 d^2/dm^2 E g(f)``, which stays finite at zero variance.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.polynomial import chebyshev
from scipy.special import dawsn

__all__ = [
    "dawson",
    "digamma_minus_log",
    "expected_log_sigmoid",
    "expected_log_square",
    "expected_sigmoid",
    "expected_sigmoid_slope",
    "gamma_expectation_log1p",
    "log_rising",
]


def _as_floats(*values: ArrayLike) -> list[Array]:
    """Arguments broadcast together, in their common floating dtype."""
    dtype = jnp.result_type(float, *values)
    return jnp.broadcast_arrays(*(jnp.asarray(value, dtype) for value in values))


# With q = x^2, t = (q - a)/(q + a) and a = 12, Dawson's D is described by smooth functions P, Q, H of t:
#   D(x) = x P(t)/(q + a),  D'(x) = 1 - 2 x D(x) = (1 - t) Q(t),  4 int_0^x D = log(1 + q/a) + H(t) - H(-1),
# so that (1 - t) Q = 1 - (1 + t) P, (1 - t) H' = 2 P - 1, and H(1) = 0.
_A = 12.0


def _dawson_series(degree: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chebyshev coefficients of P, Q and H."""

    def scaled_dawson(t: np.ndarray) -> Any:
        q = _A * (1 + t) / (1 - t)
        return dawsn(np.sqrt(q)) / np.sqrt(q) * (q + _A)

    one, one_plus_t, one_minus_t = np.array([1.0]), np.array([1.0, 1.0]), np.array([1.0, -1.0])
    P: np.ndarray = chebyshev.chebinterpolate(scaled_dawson, degree)
    P[0] += 0.5 - P.sum()  # D(x) ~ 1/(2x), so P(1) = 1/2 and both divisions are exact
    Q = chebyshev.chebdiv(chebyshev.chebsub(one, chebyshev.chebmul(one_plus_t, P)), one_minus_t)[0]
    H_slope = chebyshev.chebdiv(chebyshev.chebsub(2 * P, one), one_minus_t)[0]
    return P, Q, chebyshev.chebint(H_slope, lbnd=1)


_P, _Q, _H = _dawson_series()


def _chebyshev_sum(coefficients: np.ndarray, t: Array) -> Array:
    """Clenshaw's recurrence, over the coefficients that matter at the precision of `t`."""
    matters = np.abs(coefficients) > 0.01 * float(jnp.finfo(t.dtype).eps)
    first, *others = coefficients[: np.flatnonzero(matters)[-1] + 1].tolist()
    current, previous = jnp.zeros_like(t), jnp.zeros_like(t)
    for coefficient in reversed(others):
        current, previous = coefficient + 2 * t * current - previous, current
    return first + t * current - previous


@jax.jit
def dawson(x: ArrayLike) -> Array:
    """Dawson's integral ``exp(-x^2) int_0^x exp(u^2) du``."""
    return _dawson(*_as_floats(x))


@jax.custom_jvp
def _dawson(x: Array) -> Array:
    near = x / (x * x + _A)
    far = 1 / (x + _A / jnp.where(x == 0, 1, x))  # the same, without overflow of x^2
    return jnp.where(jnp.abs(x) < 1, near, far) * _chebyshev_sum(_P, 1 - 2 * _A / (x * x + _A))


@_dawson.defjvp
def _dawson_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (x_dot,) = primals, tangents
    one_minus_t = 2 * _A / (x * x + _A)
    return _dawson(x), one_minus_t * _chebyshev_sum(_Q, 1 - one_minus_t) * x_dot


@jax.jit
def expected_log_square(mean: ArrayLike, variance: ArrayLike) -> Array:
    """``E log f^2`` for ``f ~ N(mean, variance)``: xi of the square link, MATH section 4.

    ``log mean^2`` at zero variance; minus infinity where both arguments are zero.
    """
    return _expected_log_square(*_as_floats(mean, variance))


def _square_scale(mean: Array, variance: Array) -> tuple[Array, Array]:
    """``W = m^2 + 2 a S``, and `t` at ``q = m^2/(2 S)``."""
    square, spread = mean * mean, 2 * _A * variance
    scale = square + spread
    return scale, (square - spread) / jnp.where(scale > 0, scale, 1)


@jax.custom_jvp
def _expected_log_square(mean: Array, variance: Array) -> Array:
    # log(S/2) - gamma + 4 int_0^sqrt(q) D = log W + H(t)
    scale, t = _square_scale(mean, variance)
    return jnp.log(scale) + _chebyshev_sum(_H, t)


@_expected_log_square.defjvp
def _expected_log_square_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    mean, variance = primals
    scale, t = _square_scale(mean, variance)
    # d xi/d m = (2/sqrt S) sqrt2 D(m/sqrt(2S)) = 4 m P/W,  d xi/d S = D'(m/sqrt(2S))/S = 4 a Q/W
    by_mean = 4 * mean / scale * _chebyshev_sum(_P, t)
    by_variance = 4 * _A / scale * _chebyshev_sum(_Q, t)
    return _expected_log_square(mean, variance), by_mean * tangents[0] + by_variance * tangents[1]


@jax.jit
def expected_log_sigmoid(mean: ArrayLike, variance: ArrayLike) -> Array:
    """``E log sigma(f)`` for ``f ~ N(mean, variance)``."""
    return _logistic_mean(0, *_as_floats(mean, variance))


@jax.jit
def expected_sigmoid(mean: ArrayLike, variance: ArrayLike) -> Array:
    """``E sigma(f)`` for ``f ~ N(mean, variance)``."""
    mean, variance = _as_floats(mean, variance)
    return _logistic_mean(1, -mean, variance)  # (log sigma)'(-f) = sigma(f)


@jax.jit
def expected_sigmoid_slope(mean: ArrayLike, variance: ArrayLike) -> Array:
    """``E sigma'(f)`` for ``f ~ N(mean, variance)``: the derivative of `expected_sigmoid` in the mean."""
    return -_logistic_mean(2, *_as_floats(mean, variance))


_PROBIT_SCALE = 1.7  # sigma(f) is within 0.01 of the normal distribution function of f/1.7


def _derivative(function: Callable[[Array], Array], order: int) -> Callable[[Array], Array]:
    """Differentiate an elementwise function `order` times."""
    if order == 0:
        return function
    lower = _derivative(function, order - 1)
    return lambda x: jax.jvp(lower, (x,), (jnp.ones_like(x),))[1]


@jax.custom_jvp
def _sigmoid(x: Array) -> Array:
    return jax.nn.sigmoid(x)


# sigma' as a product keeps its relative accuracy in both tails; sigma (1 - sigma) does not.
_sigmoid.defjvps(lambda x_dot, _, x: _sigmoid(x) * _sigmoid(-x) * x_dot)


def _log_sigmoid_derivative(order: int, f: Array) -> Array:
    if order == 0:
        return jax.nn.log_sigmoid(f)
    return _derivative(lambda x: _sigmoid(-x), order - 1)(f)


def _probit_derivative(order: int, f: Array, scale: ArrayLike) -> Array:
    """Differentiate ``E min(f + scale z, 0)``, z standard normal: like log sigma, but easy to smooth."""

    def upper_tail(x: Array) -> Array:
        return 0.5 * jax.lax.erfc(x / (scale * math.sqrt(2)))

    if order == 0:
        return f * upper_tail(f) - scale * jnp.exp(-0.5 * (f / scale) ** 2) / math.sqrt(2 * math.pi)
    return _derivative(upper_tail, order - 1)(f)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _logistic_mean(order: int, mean: Array, variance: Array) -> Array:
    """``E g(f)`` of the `order`-th derivative g of log sigma."""

    def remainder(f: Array) -> Array:
        return _log_sigmoid_derivative(order, f) - _probit_derivative(order, f, _PROBIT_SCALE)

    # E g = E probit + E (g - probit); the last function vanishes in both tails.
    smooth = _probit_derivative(order, mean, jnp.sqrt(_PROBIT_SCALE**2 + variance))
    return smooth + _localised_mean(remainder, mean, variance)


@_logistic_mean.defjvp
def _logistic_mean_jvp(order: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    first, second = (_logistic_mean(order + k, *primals) for k in (1, 2))
    return _logistic_mean(order, *primals), first * tangents[0] + 0.5 * second * tangents[1]


def _localised_mean(function: Callable[[Array], Array], mean: Array, variance: Array) -> Array:
    """Gaussian mean of a function that vanishes for large arguments, by the trapezoid rule in O(n) memory.

    The grid covers ``mean +- reach sd``, cut to a window of half-width `extent` nearest to zero. Poles at
    ``+-i pi`` make the error about ``exp(-2 pi^2 / step)``.
    """
    reach, extent, nodes = (8.5, 25.0, 64) if mean.dtype == jnp.float64 else (5.5, 16.0, 40)
    sd = jnp.sqrt(jnp.maximum(variance, jnp.finfo(mean.dtype).tiny))
    half_width = jnp.minimum(reach, extent / sd)
    centre = -jnp.clip(mean / sd, half_width - reach, reach - half_width)
    step = 2 * half_width / (nodes - 1)

    def add_node(i: Array, total: Array) -> Array:
        z = centre - half_width + i * step
        return total + jnp.exp(-0.5 * z * z) * function(mean + sd * z)

    total = jax.lax.fori_loop(0, nodes, add_node, jnp.zeros_like(mean))
    return total * step / math.sqrt(2 * math.pi)


@jax.jit
def gamma_expectation_log1p(mean: ArrayLike, shape: ArrayLike, c: ArrayLike) -> Array:
    """``E log(1 + c T)`` for ``T`` gamma with the given mean and shape (variance ``mean^2 / shape``).

    Frullani's ``log(1 + z) = int (1 - exp(-z t)) exp(-t) dt/t`` needs only the Laplace transform of T.
    Relative to a constant T, with ``y = c mean t``, the value is
    ``log(1 + c mean) - int [(1 + y/shape)^-shape - exp(-y)] exp(-t) dt/t``: the trapezoid rule in ``log t``.
    """
    mean, shape, c = _as_floats(mean, shape, c)
    scale = c * mean
    log_t, step = _frullani_grid(jax.lax.stop_gradient(scale), jax.lax.stop_gradient(shape))
    t, k = jnp.exp(log_t), shape[..., None]
    x = scale[..., None] * t / k
    # (1 + x)^-k - exp(-k x) = -(1 + x)^-k expm1(-k (x - log1p x))
    excess = -jnp.exp(-k * jnp.log1p(x)) * jnp.expm1(-k * _x_minus_log1p(x))
    return jnp.log1p(scale) - step * jnp.sum(excess * jnp.exp(-t), axis=-1)


def _frullani_grid(scale: Array, shape: Array, nodes: int = 96) -> tuple[Array, Array]:
    """Nodes of ``log t`` on a new last axis, and their step, for the integral in `gamma_expectation_log1p`.

    The integrand is at most ``min(y, y^2 / (2 shape))`` on the left; on the right it falls like ``exp(-t)``
    or like ``(1 + y/shape)^-shape``, whichever is first. The cuts leave about 1e-12 of it outside.
    """
    log_scale = jnp.log(jnp.maximum(scale, jnp.finfo(scale.dtype).tiny))
    log_peak = jnp.minimum(log_scale, 0)
    left = 0.5 * (math.log(1e-12) + jnp.minimum(jnp.log(shape) - log_peak, 0)) + log_peak
    right = jnp.minimum(math.log(30) + log_scale, jnp.log(shape) + jnp.log(jnp.expm1(30 / shape)))
    step = (right - left) / (nodes - 1)
    log_y = left[..., None] + step[..., None] * jnp.arange(nodes)
    return log_y - log_scale[..., None], step


def _x_minus_log1p(x: Array) -> Array:
    """``x - log(1 + x)`` for ``x >= 0``, without cancellation at small x."""
    # log(1 + x) = 2 atanh(r), r = x/(2 + x), so x - log(1 + x) = r x - 2 r^3 (1/3 + r^2/5 + ...)
    r = x / (2 + x)
    tail = jnp.polyval(jnp.asarray([1 / (2 * j + 3) for j in reversed(range(11))], x.dtype), r * r)
    return jnp.where(x < 0.5, r * (x - 2 * r * r * tail), x - jnp.log1p(x))


# B_2j / (2 j) of the expansion digamma(k) - log(k) ~ -1/(2k) - sum_j B_2j / (2 j k^2j)
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_DIGAMMA_SHIFT = 8


@jax.jit
def digamma_minus_log(k: ArrayLike) -> Array:
    """``digamma(k) - log(k)`` for ``k > 0``, without cancellation at large k."""
    (k,) = _as_floats(k)
    # Small k by the recurrence digamma(k) = digamma(k + 8) - sum_{i<8} 1/(k + i).
    small = k < _DIGAMMA_SHIFT
    shifted = k + _DIGAMMA_SHIFT
    recurrence = jnp.log(shifted) - jnp.log(k) - sum(1 / (k + i) for i in range(_DIGAMMA_SHIFT))
    inverse = 1 / jnp.where(small, shifted, k)
    series = jnp.polyval(jnp.asarray(_DIGAMMA_SERIES[::-1], k.dtype), inverse**2)
    return jnp.where(small, recurrence, 0) - inverse * (0.5 + inverse * series)


@jax.jit
def log_rising(y: ArrayLike, k: ArrayLike) -> Array:
    """``log Gamma(k + y) - log Gamma(k) - y log k`` for ``y >= 0``, without cancellation at large k."""
    y, k = _as_floats(y, k)
    large = k > 100
    near = jnp.where(large, 100.0, k)
    direct = jax.scipy.special.gammaln(near + y) - jax.scipy.special.gammaln(near) - y * jnp.log(near)
    # Stirling: (k + y - 1/2) log(1 + y/k) - y + r(k + y) - r(k), r(k) = 1/(12 k) - 1/(360 k^3)
    far = jnp.where(large, k, 100.0)
    total = far + y
    series = (1 / total - 1 / far) / 12 - (1 / total**3 - 1 / far**3) / 360
    return jnp.where(large, (total - 0.5) * jnp.log1p(y / far) - y + series, direct)
