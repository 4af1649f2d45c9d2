"""Compiled functions kept from one process to the next, in the user's cache folder.

JAX's persistent cache, made safe to have on by default: bounded, and apart for each version of JAX and vbagg and each
kind of processor. `VBAGG_CACHE` names another folder, or is "off". A host program that has set a cache of its own keeps
it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

import jax
from filelock import FileLock, Timeout

from vbagg import __version__

VARIABLE, OFF = "VBAGG_CACHE", "off"
MOST_BYTES = 500_000_000
"""Least recently used functions beyond this are dropped."""
WORTH_KEEPING = 0.05
"""Seconds of compilation from which a function is kept."""


def keep_compiled_functions() -> Path | None:
    """Turn the cache on and return its folder; None where it is off or cannot be written."""
    chosen = os.environ.get(VARIABLE)
    settings = jax.config.values
    if chosen == OFF or settings["jax_compilation_cache_dir"] or not settings["jax_enable_compilation_cache"]:
        return None
    folder = (Path(chosen).expanduser() if chosen else users_folder()) / _kind()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _drop_unfinished(folder)
    except (OSError, Timeout):
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", MOST_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)
    # a host program that has compiled something has settled that there is no cache
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    reset_cache()
    return folder


def users_folder() -> Path:
    """Where programs keep what they can make again."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        root = "~/Library/Caches"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "vbagg"


def _kind() -> str:
    """Name of the folder for functions that this process may use."""
    about = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        about += sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    except OSError:
        pass
    processor = hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
    return f"compiled-{__version__}-jax-{jax.__version__}-{processor}"


def _drop_unfinished(folder: Path) -> None:
    """Remove functions whose writing was cut short: those without the time of last use, which is written after them."""
    with FileLock(folder / ".lockfile", timeout=10):
        for function in folder.glob("*-cache"):
            if not function.with_name(function.name.removesuffix("-cache") + "-atime").exists():
                function.unlink()
