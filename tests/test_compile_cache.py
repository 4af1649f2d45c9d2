"""Compiled functions are kept from one process to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import jax, jax.numpy as jnp
jax.jit(lambda x: x + 1)(1.0)  # a host program that compiled something before
import vbagg.compiling
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
print(jax.config.jax_compilation_cache_dir)
f = jax.jit(lambda x: jnp.linalg.cholesky(jnp.sin(x @ x.T) + 99 * jnp.eye(7)).sum() ** 3)
from jax._src import monitoring
hits = []
monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("/cache_hits") else None)
print(float(f(jnp.arange(14.0).reshape(7, 2))), len(hits))
"""


def run(folder: Path | str, **environment: str) -> tuple[str, float, int]:
    """Folder of the cache in a process of its own, a result, and how many functions came from the cache."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    own |= {"VBAGG_CACHE": str(folder), **environment}
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, numbers = done.stdout.splitlines()
    value, hits = numbers.split()
    return place, float(value), int(hits)


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*-cache"))


def test_a_second_process_takes_what_the_first_has_compiled(tmp_path):
    place, value, hits = run(tmp_path)
    assert hits == 0
    assert Path(place).parent == tmp_path
    if os.name == "posix":
        assert Path(place).stat().st_mode & 0o077 == 0
    again = run(tmp_path)
    assert again[:2] == (place, value)
    assert again[2] > 0


def test_functions_whose_writing_was_cut_short_are_compiled_anew(tmp_path):
    _, value, _ = run(tmp_path)
    for function in kept(tmp_path):
        function.write_bytes(function.read_bytes()[:100])
        function.with_name(function.name.removesuffix("-cache") + "-atime").unlink()
    assert run(tmp_path)[1:] == (value, 0)
    assert run(tmp_path)[2] > 0


@pytest.mark.parametrize("why", ["off", "unwritable", "host"])
def test_no_cache_where_it_is_not_wanted_or_possible(why, tmp_path):
    (tmp_path / "file").touch()
    folder = {"off": "off", "unwritable": tmp_path / "file", "host": tmp_path / "ours"}[why]
    theirs = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "theirs")} if why == "host" else {}
    place, _, hits = run(folder, **theirs)
    assert place == theirs.get("JAX_COMPILATION_CACHE_DIR", "None")
    assert hits == 0
    assert not (tmp_path / "ours").exists()
