"""How functions are compiled: lightly where compilation would take longer than running."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

LIGHT: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 0}}
"""Matrix products come from a library: the lightest compilation takes half the time, and other loops run slower."""

lightly = partial(partial, jax.jit, **LIGHT)
