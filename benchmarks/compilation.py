"""What compiling the functions of a fit takes, and how fast they run, by the options of the compiler.

    python benchmarks/compilation.py [--pixels 20000] [--out results/compilation.json]

The functions of the first chunk of representatives of the malaria twin (linear + ARD RBF + Matern 3/2, 576 landmarks),
without a cache of compiled functions. CPU seconds of a compilation, CPU milliseconds of a call (median of nine).
`ordinary`: JAX as it comes; `lightest`: level 0; `quick`: `vbagg.compiling.QUICK`, and with some of its options alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np
from common import machine, write_json
from roofline import caught_problem

from vbagg.compiling import QUICK
from vbagg.inference import passes, problem

EMITTERS = "xla_cpu_use_fusion_emitters"
WAYS: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "lightest": {"xla_backend_optimization_level": 0},
    "quick, with fusion emitters": {name: value for name, value in QUICK.items() if name != EMITTERS},
    "quick, full optimisation": {EMITTERS: False},
    "quick": QUICK,
}


def cpu_of(function: Any) -> tuple[Any, float]:
    """What a function gives, once it is there, and the CPU seconds that it took."""
    began = time.process_time()
    given = jax.block_until_ready(function())
    return given, time.process_time() - began


def measure(pixels: int) -> dict[str, dict[str, dict[str, float]]]:
    """CPU of compilation and calls, by way and function."""
    whole, start = caught_problem("exp", pixels)
    own = whole.rough or whole
    at, chunk = own.at(start.parameters), own.chunks[0]
    spec, basis, p, m = own.spec, at.basis, at.parameters.likelihood, own.n_features
    q = problem.Gaussian(np.zeros(m), 0.3 * np.eye(m))
    staged = passes.compiled_stage(spec, basis, chunk, False)
    calls = {
        passes.compiled_stage: (spec, basis, chunk, False),
        passes.terms_and_slopes: (spec, p, staged, q.mu, q.factor),
        passes.gauss_newton: (spec, p, staged, q.mu),
        passes.basis_slopes: (spec, basis, p, chunk, q.mu, q.factor),
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    for way, options in WAYS.items():
        found[way] = {}
        for function, arguments in calls.items():
            plain = function.__wrapped__
            static = ("spec", "collapse") if plain.__name__ == "stage" else "spec"
            jax.clear_caches()  # one way may have been compiled already
            lowered = jax.jit(plain, static_argnames=static, compiler_options=options).lower(*arguments)
            compiled, compiling = cpu_of(lowered.compile)
            traced = [a for a in arguments if not isinstance(a, bool) and a is not spec]
            runs = [cpu_of(lambda: compiled(*traced))[1] for _ in range(10)]  # noqa: B023
            told = found[way][plain.__name__] = {"compile_s": compiling, "run_ms": 1e3 * float(np.median(runs[1:]))}
            print(f"{way:28s} {plain.__name__:18s} " + ", ".join(f"{k} {v:.3g}" for k, v in told.items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", type=int, default=20_000)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    with jax.enable_x64(True):
        found = measure(options.pixels)
    if options.out:
        write_json(options.out, {"pixels": options.pixels, "ways": found, "machine": machine()})


if __name__ == "__main__":
    main()
