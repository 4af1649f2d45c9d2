"""What the benchmarks share: clocks, the machine, results written in one piece."""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def timed() -> Iterator[SimpleNamespace]:
    """Wall and CPU seconds of a block."""
    clock = SimpleNamespace(wall=0.0, cpu=0.0)
    wall, cpu = time.perf_counter(), time.process_time()
    yield clock
    clock.wall, clock.cpu = time.perf_counter() - wall, time.process_time() - cpu


def peak_gb() -> float:
    """Most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def machine() -> dict[str, Any]:
    """Processor, cores, versions and date."""
    import jax

    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "date": datetime.date.today().isoformat(),
    }


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write to a temporary name and move into place."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    temporary.replace(target)


@contextmanager
def source_of(revision: str | None) -> Iterator[Path]:
    """The package's source: the present one, or that of a commit in a working tree of its own."""
    if revision is None:
        yield ROOT / "src"
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", tree, revision], check=True)
        try:
            yield tree / "src"
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
