"""Saved models give the same numbers again, bit for bit; anything else in a file is refused with a reason."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import fields

import jax
import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg import io, kernels, likelihoods
from vbagg.errors import NotFittedError
from vbagg.inference import Fit, Gaussian, Status

CASES = [
    ("poisson", "square"),
    ("poisson", "exp"),
    ("negative_binomial", "square"),
    ("negative_binomial", "exp"),
    ("normal", "identity"),
    ("exponential", "exp"),
    ("binomial", "logistic"),
]
FIXED = kernels.RBF(variance=1.0, lengthscale=1.5, fixed=("variance", "lengthscale"))


def toy():
    """Twelve bags of five rows with unequal weights, outputs, and trials above the outputs."""
    rng = np.random.default_rng(11)
    X = pd.DataFrame({"rain": rng.normal(size=60), "height": rng.gamma(2.0, 300.0, 60)})
    bags = vbagg.Bags(X, np.repeat([f"D{a:02d}" for a in range(12)], 5), rng.uniform(0.5, 2.0, 60))
    y = rng.poisson(2.0 * bags.totals()).astype(float)
    return X, bags, y, y + rng.integers(1, 9, 12)


class Arbitrary(vbagg.Newton):
    """The start with some posterior of the weights: all that storing needs, without compiling a fit."""

    def run(self, task):
        rng = np.random.default_rng(5)
        factor = np.tril(rng.normal(0.0, 0.2, (task.problem.n_features,) * 2)) + np.eye(task.problem.n_features)
        q = Gaussian(rng.normal(0.0, 0.3, task.problem.n_features), factor)
        status = Status(True, "Not a fit.", 3, 4, (-1.5, -1 / 3), 1e-8)
        history = [{"evaluation": 0, "elbo": -1 / 3}]
        start = jax.tree.map(np.asarray, task.starts[0])
        jitter = (1e-8,) * len(start.kernel)
        return Fit(
            parameters=start,
            q=q,
            posterior=q,
            elbo=-1 / 3,
            objective=-1.5,
            jitter=jitter,
            status=status,
            history=history,
        )


def fitted(likelihood="normal", link="identity", **options):
    _, bags, y, trials = toy()
    options = {"kernel": FIXED, "landmarks": 6, "inference": Arbitrary(), "hyper": "point"} | options
    name = likelihood if isinstance(likelihood, str) else likelihood.name
    model = vbagg.VBAgg(likelihood, link, **options)
    model.fit(bags, y, trials=trials if name in ("binomial", "beta_binomial") else None)
    return model.set_params(inference="newton") if isinstance(model.inference, Arbitrary) else model


@pytest.fixture(scope="module")
def model():
    return fitted(inference=vbagg.Newton(starts=1))


@pytest.fixture
def file(model, tmp_path):
    path = tmp_path / "model.vbagg"
    model.save(path)
    return path


def assert_same(one, other):
    """Equal values of equal types, arrays to the last bit."""
    if isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other, check_names=False)
    elif isinstance(one, np.ndarray | jax.Array):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), strict=True)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert type(one) is type(other)
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif hasattr(one, "__dataclass_fields__"):
        assert type(one) is type(other)
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    else:
        assert type(one) is type(other)
        assert one == other


def assert_same_predictions(one, other, trials=None):
    X, bags, y, _ = toy()
    for law, again in (
        (one.posterior(X), other.posterior(X)),
        (one.posterior_bags(bags), other.posterior_bags(bags)),
        (one.predictive_bags(bags, trials), other.predictive_bags(bags, trials)),
    ):
        np.testing.assert_array_equal(law.mean, again.mean)
        np.testing.assert_array_equal(law.std, again.std)
    np.testing.assert_array_equal(one.predict(bags, trials), other.predict(bags, trials))
    assert one.score(bags, y, trials) == other.score(bags, y, trials)


def rewrite(path, document=None, drop=()):
    """The same container with another document or without some members."""
    with zipfile.ZipFile(path) as container:
        members = {name: container.read(name) for name in container.namelist()}
    if document is not None:
        members[io.DOCUMENT] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as container:
        for name, content in members.items():
            if name not in drop:
                container.writestr(name, content)


def document_of(path):
    with zipfile.ZipFile(path) as container:
        return json.loads(container.read(io.DOCUMENT))


def member_of(path, end):
    """The one member whose name ends so."""
    with zipfile.ZipFile(path) as container:
        (name,) = (name for name in container.namelist() if name.endswith(end))
    return name


# Round trips


@pytest.mark.parametrize(("likelihood", "link"), CASES)
def test_every_likelihood_and_link_comes_back_bit_for_bit(likelihood, link, tmp_path):
    model = fitted(likelihood, link)
    model.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    assert type(again) is vbagg.VBAgg
    assert_same(model.get_params(), again.get_params())
    left_out = {"_training"}
    assert_same(
        {name: value for name, value in vars(model).items() if name not in left_out},
        {name: value for name, value in vars(again).items() if name not in left_out},
    )
    assert_same_predictions(model, again, toy()[3] if likelihood == "binomial" else None)


FEW = vbagg.Adam(learning_rates=(0.05,), epochs=2, batch_size=3, record_every=1)
BASELINES = {
    "constant": vbagg.Constant("negative_binomial"),
    "bagpixel": vbagg.BagPixel(kernel=FIXED, landmarks=3, inference=FEW),
    "nystrom": vbagg.Nystrom("normal", "identity", kernel=FIXED + kernels.Linear("rain"), landmarks=3, inference=FEW),
    "network": vbagg.ManifoldNN(
        hidden=3, manifold=vbagg.Manifold(0.3, 0.2, kernels.Matern12("height"), number=7), inference=FEW
    ),
}


@pytest.mark.parametrize("name", BASELINES)
def test_models_without_uncertainty_come_back_bit_for_bit(name, tmp_path):
    X, bags, y, _ = toy()
    model = BASELINES[name].fit(bags, y)
    model.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    assert type(again) is type(model)
    assert_same(vars(model), vars(again))
    np.testing.assert_array_equal(model.posterior(X).mean, again.posterior(X).mean)
    assert np.ptp(model.posterior(X).mean) > 0 or name == "constant"
    np.testing.assert_array_equal(model.predict(bags), again.predict(bags))
    np.testing.assert_array_equal(model.predictive_bags(bags).sample(3, 1), again.predictive_bags(bags).sample(3, 1))
    assert model.score(bags, y) == again.score(bags, y)
    assert model.likelihood_parameters_ == again.likelihood_parameters_
    again.save(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("labels", [["b", "a", "c"], [7, -1, 4], [("N", 2), ("N", 1), ("S", 2)], ["1", 1, (1,)]])
def test_labels_of_bags_come_back(labels, tmp_path):
    bags = vbagg.Bags(np.arange(6.0), [label for label in labels for _ in range(2)], [1.0, 2.0, 3.0, 0.5, 1.5, 4.0])
    model = vbagg.Constant().fit(bags, [3.0, 8.0, 1.0])
    model.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    assert_same(again._fitted.labels, labels)
    order = [labels[2], labels[0], labels[1]]
    rates = again.posterior(np.zeros(3), bag=order).mean
    np.testing.assert_array_equal(rates, model.posterior(np.zeros(3), bag=order).mean)
    np.testing.assert_allclose(rates, [1 / 5.5, 1.0, 8 / 3.5])


def test_sums_and_products_with_landmarks_of_each_kind(tmp_path):
    kernel = (
        kernels.Linear("rain")
        + kernels.RBF(["rain", "height"], ard=True) * kernels.Periodic("height", period=2.0)
        + kernels.Matern32("height", lengthscale=0.7, fixed="lengthscale")
        + kernels.Matern12("rain") * (kernels.Matern52("height") + kernels.Linear("rain", variance=1.0))
    )
    rows = toy()[0]
    model = fitted(kernel=kernel, landmarks=[rows.to_numpy()[:5], vbagg.Landmarks(4, "variance"), 3])
    model.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    assert_same(model.get_params(), again.get_params())
    assert again.kernel_ == model.kernel_
    assert_same(model.landmarks_, again.landmarks_)
    pd.testing.assert_frame_equal(again.parameters_, model.parameters_)
    np.testing.assert_array_equal(model.posterior(rows).mean, again.posterior(rows).mean)
    np.testing.assert_array_equal(model.posterior(rows).std, again.posterior(rows).std)


@pytest.mark.parametrize(
    "changes",
    [
        {"likelihood": likelihoods.Normal(tau=0.4)},
        {"likelihood": likelihoods.Normal(tau=np.linspace(0.1, 1.2, 12))},
        {"likelihood": likelihoods.Normal(tau=pd.Series([0.1, 0.25], index=["D01", "D00"]))},
        {"likelihood": likelihoods.Normal(tau=pd.Series([1, 3], index=[7, 4]))},
        {"likelihood": likelihoods.NegativeBinomial(dispersion=0.2)},
        {"likelihood": likelihoods.Poisson(), "link": "exp", "approximation": "bound"},
        {"landmarks": np.arange(6.0).reshape(3, 2)},
        {"landmarks": np.int64(7)},
        {"landmarks": vbagg.Landmarks(9, "kmeans++", joint=True, learn=True)},
        {"landmarks": (None, [[1.0, 2.0]], np.array([[0.1]]))},
        {"inference": "adam", "residual": "subset", "hyper": "average", "memory": 1e8, "random_state": 5},
        {"inference": vbagg.Adam(learning_rates=(0.1, 1e-3), seeds=(3, 4), batch_size=2, early_stopping=True)},
        {"priors": None},
        {"priors": {"lengthscale": vbagg.Prior(0.1 + 0.2, 1 / 3), "variance": None}},
        {"kernel": None},
    ],
)
def test_constructor_parameters_come_back(model, changes, tmp_path):
    changed = vbagg.VBAgg()
    vars(changed).update(vars(model))
    changed.set_params(**changes)
    changed.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model").get_params()
    expected = {k: v.item() if isinstance(v, np.generic) else v for k, v in changed.get_params().items()}
    assert_same(expected, again)


def test_known_variances_of_the_bags_predict_the_same(tmp_path):
    tau = pd.Series(np.linspace(0.3, 2.0, 12), index=[f"D{a:02d}" for a in reversed(range(12))])
    model = fitted(likelihoods.Normal(tau=tau))
    model.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    assert_same_predictions(model, again)
    bags = toy()[1]
    draws = model.predictive_bags(bags).sample(16, 5)
    np.testing.assert_array_equal(draws, again.predictive_bags(bags).sample(16, 5))


def test_an_average_over_parameters_keeps_its_members(tmp_path):
    model = fitted(inference=vbagg.Newton(starts=1), hyper="average")
    model.save(tmp_path / "model")
    again = vbagg.load(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as container:
        saved = sum("/members/" in name and name.endswith("mu.npy") for name in container.namelist())
    assert saved == len(model._fitted.members) > 1
    assert_same_predictions(model, again)


def test_monte_carlo_evidence_is_kept_only_if_it_was_computed(tmp_path):
    model = fitted(inference=vbagg.Newton(starts=1))
    model.save(tmp_path / "without")
    with pytest.raises(AttributeError, match="needs the training data"):
        _ = vbagg.load(tmp_path / "without").elbo_mc_
    evidence = model.elbo_mc_
    model.save(tmp_path / "with")
    assert vbagg.load(tmp_path / "with").elbo_mc_ == evidence


def test_a_loaded_model_can_be_fitted_again(model, file):
    _, bags, y, _ = toy()
    again = vbagg.load(file).fit(bags, y)
    assert again.elbo_ == model.elbo_
    assert np.isfinite(again.elbo_mc_)


def test_another_process_gets_the_same_bits(model, file, tmp_path):
    X = toy()[0]
    X.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    program = (
        "import sys, pandas, vbagg\n"
        "rows = pandas.read_csv(sys.argv[2], float_precision='round_trip')\n"
        "post = vbagg.load(sys.argv[1]).posterior(rows)\n"
        "print(post.mean.tobytes().hex(), post.std.tobytes().hex())"
    )
    command = [sys.executable, "-c", program, str(file), str(tmp_path / "rows.csv")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    post = model.posterior(X)
    assert printed == [post.mean.tobytes().hex(), post.std.tobytes().hex()]


# The container


def test_the_container_is_json_and_arrays_without_pickle(file):
    document = document_of(file)
    assert (document["format"], document["version"]) == ("vbagg-model", 2)
    assert document["package"] == vbagg.__version__
    with zipfile.ZipFile(file) as container:
        assert member_of(file, "members/0/q/mu.npy").startswith("state/")
        for name in set(container.namelist()) - {io.DOCUMENT}:
            with container.open(name) as member:
                assert np.lib.format.read_array(member, allow_pickle=False).dtype.kind in "fiub"
    assert "_training" not in document["state"]


def test_saving_twice_writes_the_same_bytes(model, file, tmp_path):
    model.save(tmp_path / "twin")
    assert (tmp_path / "twin").read_bytes() == file.read_bytes()
    vbagg.load(file).save(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()


def test_an_existing_file_is_replaced_and_nothing_else_is_left(model, tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    model.save(str(path))
    assert vbagg.load(str(path)).elbo_ == model.elbo_
    assert os.listdir(tmp_path) == ["model"]
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_symbolic_link_stays_one(model, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "name").symlink_to(tmp_path / "elsewhere" / "model")
    model.save(tmp_path / "name")
    assert (tmp_path / "name").is_symlink()
    assert os.listdir(tmp_path / "elsewhere") == ["model"]


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_a_failing_write_leaves_the_old_file(model, file, monkeypatch, error):
    before = file.read_bytes()
    write = zipfile.ZipFile.writestr

    def failing(container, info, content):
        if info.filename.endswith("mu.npy"):
            raise error
        write(container, info, content)

    monkeypatch.setattr(zipfile.ZipFile, "writestr", failing)
    with pytest.raises(type(error)):
        model.save(file)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


# Refusals


def test_only_fitted_models_of_the_package_are_saved(tmp_path):
    with pytest.raises(NotFittedError, match="call `fit"):
        vbagg.VBAgg().save(tmp_path / "model")

    class Own(vbagg.VBAgg):
        pass

    with pytest.raises(TypeError, match=rf"`model` must be one of {', '.join(io.MODELS)}; got Own\."):
        io.save(Own(), tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"random_state": object()}, r"got object at 'parameters/random_state'"),
        ({"landmarks": np.array([["a"], [None]])}, r"got dtype object at 'parameters/landmarks.npy'"),
        (
            {"likelihood": likelihoods.Normal(tau=pd.Series([1.0], index=[pd.Timestamp("2020-01-01")]))},
            r"got Timestamp at 'parameters/likelihood/tau/labels/0'",
        ),
        ({"kernel": type("Own", (kernels.RBF,), {})()}, r"`kind` of a kernel must be one of .* got 'Own'"),
    ],
)
def test_what_cannot_be_read_again_is_not_written(model, changes, message, tmp_path):
    changed = vbagg.VBAgg()
    vars(changed).update(vars(model))
    changed.set_params(**changes)
    with pytest.raises((TypeError, ValueError), match=message):
        changed.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_folders_and_missing_paths(model, tmp_path):
    with pytest.raises(IsADirectoryError, match="must name a file; got the folder"):
        model.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"must lie in an existing folder; got .*nowhere/model'. Create"):
        model.save(tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="must be a file that `save` wrote; got the folder"):
        vbagg.load(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        vbagg.load(tmp_path / "missing")
    assert caught.value.filename == str(tmp_path / "missing")


def test_other_files_are_not_taken_for_models(tmp_path):
    path = tmp_path / "other"
    foreign = [b"", b"name,value\n1,2\n", pickle.dumps({"format": "vbagg-model"})]
    for content in foreign:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"must be a model file that `save` wrote; '.*other' is something"):
            vbagg.load(path)
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    with pytest.raises(ValueError, match=r"arrays.npz' is something else"):
        vbagg.load(tmp_path / "arrays.npz")


@pytest.mark.parametrize("document", [[1, 2], {"format": "another", "version": 1}, {"version": 1}])
def test_other_documents_are_not_taken_for_models(file, document):
    rewrite(file, document)
    with pytest.raises(ValueError, match="is something else"):
        vbagg.load(file)


def test_truncated_files_are_refused(file):
    content = file.read_bytes()
    for length in range(2, len(content), len(content) // 40):
        file.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"complete model file; .* is truncated or damaged .* Copy it again"):
            vbagg.load(file)


def test_a_changed_byte_is_refused_or_harmless(model, file, tmp_path):
    content = file.read_bytes()
    refused = 0
    positions = np.random.default_rng(0).choice(len(content), 300, replace=False)
    for position in positions:
        changed = bytearray(content)
        changed[position] ^= 0x55
        file.write_bytes(changed)
        try:
            again = vbagg.load(file)
        except ValueError:
            refused += 1
        else:
            again.save(tmp_path / "again")
            assert (tmp_path / "again").read_bytes() == content
    assert refused > 0.5 * len(positions)


def test_newer_versions_are_refused(file):
    document = document_of(file) | {"version": 3, "package": "9.1"}
    rewrite(file, document)
    with pytest.raises(
        ValueError, match=r"must be at most 2; .* has 3, written by vbagg 9\.1\. Load it with that release"
    ):
        vbagg.load(file)


def test_older_versions_are_refused_with_the_remedy(file):
    rewrite(file, document_of(file) | {"version": 1, "package": "0.0.9"})
    with pytest.raises(ValueError, match=r"must be 2; .* has 1, written by vbagg 0\.0\.9, .* Fit the model again"):
        vbagg.load(file)


@pytest.mark.parametrize("section", ["package", "model", "parameters", "state"])
def test_missing_sections_are_named(file, section):
    document = document_of(file)
    del document[section]
    rewrite(file, document)
    with pytest.raises(ValueError, match=rf"must have package, .*lacks {section}\. Save the model again"):
        vbagg.load(file)


def test_missing_arrays_are_named(file):
    name = member_of(file, "members/0/q/factor.npy")
    rewrite(file, drop={name})
    with pytest.raises(ValueError, match=rf"damaged \(ValueError: it lacks '{name}'\)"):
        vbagg.load(file)


def test_missing_state_is_refused(file):
    document = document_of(file)
    del document["state"]["_fitted"]["Fitted"]["frame"]
    rewrite(file, document)
    with pytest.raises(ValueError, match=r"damaged \(TypeError: .* missing 1 required .* 'frame'\)"):
        vbagg.load(file)
    del document["state"]["_fitted"]
    rewrite(file, document)
    with pytest.raises(ValueError, match=r"damaged \(ValueError: it lacks the fitted state\)"):
        vbagg.load(file)


def test_unknown_models_and_classes_are_never_made(file):
    document = document_of(file)
    rewrite(file, document | {"model": "Popen"})
    with pytest.raises(ValueError, match=rf"must hold one of {', '.join(io.MODELS)}; .* holds 'Popen'"):
        vbagg.load(file)
    document["parameters"]["inference"] = {"Popen": {"args": ["true"]}}
    rewrite(file, document)
    with pytest.raises(ValueError, match=r"damaged \(ValueError: it holds 'Popen', which is none of vbagg's classes\)"):
        vbagg.load(file)


def test_pickled_arrays_are_not_opened(file, tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(file, "a") as container:
        container.write(tmp_path / "evil.npy", "evil.npy")
    document = document_of(file)
    document["parameters"]["landmarks"] = {"array": "evil.npy"}
    rewrite(file, document)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        vbagg.load(file)
