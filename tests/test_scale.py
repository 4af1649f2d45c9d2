"""What must not grow: compilations, imports, memory."""

import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest

import vbagg
from vbagg.bags import Bags
from vbagg.chunks import make_chunks, plan_batches
from vbagg.elbo import Spec
from vbagg.features import FeatureMap, make_basis
from vbagg.inference import passes
from vbagg.inference.sums import Sums
from vbagg.kernels import RBF
from vbagg.likelihoods import Poisson
from vbagg.links import get_link

HEAVY = ("jax", "sklearn", "pandas", "matplotlib", "scipy", "rasterio", "geopandas", "xarray")


@pytest.mark.parametrize("size", [6, 200])
def test_a_second_fit_of_the_same_shape_compiles_nothing(size):
    """Larger bags have representatives, and are cut into tiles."""
    compiled = []

    def listen(event, seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(seconds)

    def fit(seed):
        data = vbagg.datasets.swiss_roll(n_bags=12, mean_size=size, std_size=size / 2, seed=1)
        rng = np.random.default_rng(seed)
        y = rng.poisson(data.bags.sum_by_bag(data.bags.weight * data.rate))
        model = vbagg.VBAgg("poisson", "exp", kernel=RBF(ard=True), landmarks=9, hyper="point").fit(data.bags, y)
        assert np.isfinite(model.posterior(data.bags.X).mean).all()

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        fit(0)
        assert compiled
        compiled.clear()
        fit(1)
        assert compiled == []
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_importing_loads_no_other_library():
    code = f"import sys, vbagg; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("link", ["exp", "square"])
@pytest.mark.parametrize("size", [20, 400])
def test_memory_of_a_pass_does_not_grow_with_covariates(x64, rng, link, size):
    """Neither forward nor backward is there an array of individuals times landmarks times covariates."""

    def temporary(d, n_landmarks=64):
        n = 12 * size
        bags = Bags(rng.normal(size=(n, d)), np.repeat(np.arange(12), size), rng.exponential(size=n))
        kernel = RBF(ard=True).resolve(bags.feature_names)
        feature_map = FeatureMap((kernel,), 1.0)
        (chunk,) = make_chunks(bags, np.ones(12), {}, np.zeros(n), precision=np.float32)
        landmarks = (rng.normal(size=(n_landmarks, d)),)
        basis = make_basis(feature_map, (kernel.initial_log_parameters(bags.X, 1.0),), landmarks, (1e-6,))
        spec = Spec(feature_map, Poisson(), get_link(link), "matched")
        arguments = spec, basis, {}, chunk, np.zeros(n_landmarks + 1), np.eye(n_landmarks + 1)
        slopes = passes.basis_slopes.lower(*arguments).compile().memory_analysis()
        return slopes.temp_size_in_bytes, 4 * chunk.weight.size * (n_landmarks + 1)

    few, features = temporary(2)
    many, _ = temporary(40)
    assert many - few < 0.2 * (40 - 2) * features
    assert few < 25 * features


def test_staged_chunks_keep_to_the_memory_they_are_given(monkeypatch):
    """And are staged anew beyond it, to the same end."""
    data = vbagg.datasets.swiss_roll(n_bags=12, mean_size=30, std_size=6, seed=1)
    kept = []
    stage = Sums._staged

    def staged(self, setting, index):
        found = stage(self, setting, index)
        kept.append(self._bytes)
        return found

    monkeypatch.setattr(Sums, "_staged", staged)
    monkeypatch.setattr("vbagg.models.layout.plan_batches", partial(plan_batches, max_elements=1e3))
    options = {"kernel": RBF(), "landmarks": 9, "inference": vbagg.Newton(starts=1)}

    def fit(memory):
        kept.clear()
        model = vbagg.VBAgg("poisson", "exp", memory=memory, hyper="point", **options).fit(data.bags, data.y)
        return model.elbo_, max(kept)

    (all_kept, most), (few_kept, few) = fit(None), fit(5e4)
    assert 0 < few <= 5e4 < most
    assert few_kept == all_kept
