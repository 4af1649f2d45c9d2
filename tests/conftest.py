import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Files of tests compile many functions alike; both processes take them from one folder.
os.environ.setdefault("VBAGG_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))

import jax
import numpy as np
import pytest
from hypothesis import settings

# Compilation makes the first example slow, so time per example says nothing.
settings.register_profile("vbagg", deadline=None)
settings.load_profile("vbagg")


MOST_MAPPINGS = 30_000
"""Compiled functions hold mapped memory, of which a process may have 65,530 pieces; beyond that it crashes."""


@pytest.fixture(scope="module", autouse=True)
def bounded_mappings() -> Iterator[None]:
    """Forget compiled functions after a file of tests where there are too many."""
    yield
    mapped = Path("/proc/self/maps")
    if mapped.exists() and len(mapped.read_bytes().splitlines()) > MOST_MAPPINGS:
        jax.clear_caches()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested for want of data."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    without_data = sum("data folder" in reason for reason in skipped)
    if without_data:
        terminalreporter.write_line(f"{without_data} tests of real data were skipped: there is no data folder.")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20181203)


@pytest.fixture
def x64() -> Iterator[None]:
    """Run the test with float64 JAX arrays; the host's setting comes back afterwards."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of two workers of Dask, for the tests of a file."""
    pytest.importorskip("distributed", reason="needs Dask: pip install vbagg[cluster]")
    from vbagg.cluster import local_cluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with local_cluster(2) as client:
            yield client


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets: `VBAGG_DATA`, or `shared/data` beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("VBAGG_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set VBAGG_DATA to the folder of the data sets")
    return folder
