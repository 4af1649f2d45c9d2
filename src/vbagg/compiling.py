"""How functions are compiled: lightly where compilation would take longer than running, and once for all processes."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from vbagg.compile_cache import keep_compiled_functions

keep_compiled_functions()
LIGHT: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 0}}
"""Matrix products come from a library: the lightest compilation takes half the time, and other loops run slower."""

lightly = partial(partial, jax.jit, **LIGHT)
