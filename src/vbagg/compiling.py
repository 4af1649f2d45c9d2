"""How functions are compiled: quickly, and once for all processes."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from vbagg.compile_cache import keep_compiled_functions

keep_compiled_functions()
QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""Half the time of an ordinary compilation or less, and the functions run as fast (`benchmarks/compilation.py`)."""
LAST_TRIED = (0, 10)
"""Version of JAX that is known to know these options."""


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """The options, or none of them if a later JAX no longer knows one."""
    if jax.__version_info__[:2] <= LAST_TRIED:
        return options
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


jit = partial(partial, jax.jit, compiler_options=_known(QUICK))
"""`jax.jit` as a decorator with arguments, for functions that no other compiled function calls."""
