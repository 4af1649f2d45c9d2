"""What each pass over the pixels costs, beside what its arithmetic and its memory traffic would take alone.

    python benchmarks/roofline.py [--out results/roofline.json]

One chunk of the malaria twin (linear + ARD RBF + Matern 3/2, 18 covariates, 576 landmarks, bags in tiles), timed in one
process with the two things that bound it: the unit, a float32 product of (rows x features) with (features x features),
and the time to read and write as many bytes as the features have. Flops and bytes are counted by hand, per row. Then
whole passes over all pixels of three sizes, padding, small bags and features that memory does not hold included.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from common import machine, write_json
from scaling import N_PIXELS, twin_kernel, unit

import vbagg
from vbagg import datasets
from vbagg.inference import passes, problem
from vbagg.row_rates import ROWS, Members, _marginals

LANDMARKS = 192, 384
PIXELS, GROWTH = 260_000, (65_000, 260_000, N_PIXELS)


class CaughtError(Exception):
    """Ends a fit once its problem is known."""


def caught_problem(link: str, pixels: int) -> tuple[problem.Problem, problem.StagedProblem]:
    """The problem with all pixels that a fit of the twin would solve, at its starting parameters."""
    country = datasets.simulated_country(pixels / N_PIXELS, dispersion=0.05)
    names = [name for name in country.bags.feature_names if name not in ("x", "y")]
    kernel = twin_kernel(names)
    found = []

    class Catching(vbagg.Newton):
        def run(self, task):
            found.extend([task.problem, task.starts[0]])
            raise CaughtError

    model = vbagg.VBAgg("negative_binomial", link, kernel=kernel, landmarks=list(LANDMARKS), inference=Catching())
    with contextlib.suppress(CaughtError):
        model.fit(country.bags, country.y)
    own, start = found
    return own, own.at(start)


def seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of a compiled function."""
    jax.block_until_ready(function())
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def measure(link: str) -> dict:
    """Time of each pass over one chunk."""
    with jax.enable_x64(True):
        own, at = caught_problem(link, PIXELS)
        spec, basis, p = own.spec, at.basis, at.parameters.likelihood
        chunk = max((c for c in own.chunks if c.tiles is not None), key=lambda c: c.weight.size)
        rows, m = chunk.weight.size, own.n_features
        q = problem.Gaussian(np.zeros(m), 0.3 * np.eye(m))
        staged = passes.compiled_stage(spec, basis, chunk, False)
        A = staged.moments.A.reshape(rows, m)
        one = unit(rows, m)
        copy = seconds(lambda: double(A)) / (2 * A.nbytes)
        drawn = chunk.drawn.size / rows
        product = sum(k * k for k in LANDMARKS) / m**2
        flat, known = np.asarray(chunk.X, float).reshape(rows, -1)[:ROWS], np.zeros(ROWS)
        timed = {
            # products of a unit, features read or written
            "features": (lambda: passes.compiled_stage(spec, basis, chunk, False), product + 2 * drawn * 128 / m, 4),
            "objective and slopes": (
                lambda: passes.terms_and_slopes(spec, p, staged, q.mu, q.factor),
                2 + 2 * drawn + 4 * drawn * 128 / m,
                8,
            ),
            "Gauss-Newton": (lambda: passes.gauss_newton(spec, p, staged, q.mu), len(chunk.y) / rows, 2),
            "slopes of kernel parameters": (
                lambda: passes.basis_slopes(spec, basis, p, chunk, q.mu, q.factor),
                2 + 3 * product + 2 * drawn + 8 * drawn * 128 / m,
                18,
            ),
        }
        result = {}
        for name, (function, products, traffic) in timed.items():
            taken = seconds(function)
            result[name] = {
                "units": taken / one,
                "arithmetic_units": products,
                "memory_units": traffic * A.nbytes * copy / one,
            }
        members = Members.of([(basis, q.mu, q.factor)])
        taken = seconds(lambda: _marginals(spec, True, members, flat, known)) * rows / ROWS
        result["rates of pixels"] = {
            "units": taken / one,
            "arithmetic_units": 1 + product,
            "memory_units": 8 * A.nbytes * copy / one,
        }
    return {
        "link": link,
        "rows": rows,
        "bags": len(chunk.y),
        "features": m,
        "unit_seconds_per_million_rows": one * 1e6 / rows,
        "gigaflops": 2e-9 * rows * m * m / one,
        "gigabytes_per_second": 1e-9 / copy,
        "passes": result,
    }


def growth(pixels: int) -> dict:
    """Wall time per pixel of the first pass, which computes the features, and of a later one."""
    with jax.enable_x64(True):
        own, at = caught_problem("exp", pixels)
        m = own.n_features
        q = problem.Gaussian(np.zeros(m), 0.3 * np.eye(m))
        at.evaluate(q)  # compiles
        one = unit(pixels, m)
        first, later = [], []
        for _ in range(2):
            at = own.at(at.parameters)
            for times in (first, later):
                began = time.perf_counter()
                at.evaluate(problem.Gaussian(q.mu, q.factor))
                times.append(time.perf_counter() - began)
        return {
            "pixels": pixels,
            "padded": sum(chunk.weight.size for chunk in own.chunks) / pixels,
            "unit_seconds": one,
            "first_pass_units": min(first) / one,
            "later_pass_units": min(later) / one,
            "later_pass_microseconds_per_pixel": 1e6 * min(later) / pixels,
        }


@jax.jit
def double(A):
    """Read and write an array once."""
    return jnp.float32(2.0) * A


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    results = [measure(link) for link in ("exp", "square")]
    for result in results:
        print({key: value for key, value in result.items() if key != "passes"})
        for name, row in result["passes"].items():
            print(f"  {name}: " + ", ".join(f"{key} {value:.2f}" for key, value in row.items()))
    sizes = [growth(pixels) for pixels in GROWTH]
    for row in sizes:
        print(row)
    if options.out:
        write_json(options.out, {"chunks": results, "growth": sizes, "machine": machine()})


if __name__ == "__main__":
    main()
