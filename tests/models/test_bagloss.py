"""Mini-batches and the penalised loss of models without uncertainty, against loops over individuals."""

from __future__ import annotations

from itertools import product

import jax
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm
from uneven_bags import landmark_features, toy

from vbagg import kernels, likelihoods
from vbagg.elbo import Parameters
from vbagg.features import FeatureMap
from vbagg.links import get_link
from vbagg.models import bagloss
from vbagg.models.bagloss import BagLoss, Batches, FlatBags
from vbagg.models.functions import LandmarkFunction, Network
from vbagg.priors import make_log_prior

# Mini-batches


def test_batches_list_the_rows_of_their_bags():
    bags = toy()[0]
    orders = np.array([[[4, 1], [9, 0]], [[2, 7], [1, 6]]])
    epochs = Batches(bags)(orders)
    lengths, longest = set(), 0
    for epoch, step in product(range(2), range(2)):
        batch = {name: values[step] for name, values in epochs(epoch).items()}
        rows, slots = [], []
        for slot, a in enumerate(orders[epoch, step]):
            for row in range(bags.n_individuals):
                if bags.bag[row] == a:
                    rows.append(row)
                    slots.append(slot)
        n = len(rows)
        assert batch["rows"][:n].tolist() == rows
        assert batch["slot"][:n].tolist() == slots
        assert batch["inside"].tolist() == [1.0] * n + [0.0] * (len(batch["inside"]) - n)
        assert batch["bag"].tolist() == orders[epoch, step].tolist()
        lengths.add(len(batch["rows"]))
        longest = max(longest, n)
    assert len(lengths) == 1
    assert lengths.pop() >= longest


@pytest.mark.parametrize(("rows_per_chunk", "steps"), [(7, 6), (10, 4), (10_000, 1)])
def test_everything_holds_each_bag_once(monkeypatch, rows_per_chunk, steps):
    monkeypatch.setattr(bagloss, "ROWS_PER_STEP", rows_per_chunk)
    bags = toy()[0]
    found = Batches(bags).everything()
    assert len(found["bag"]) == steps
    counted = [a for a, count in zip(found["bag"].ravel(), found["counts"].ravel(), strict=True) if count]
    assert counted == list(range(10))
    assert set(found["counts"].ravel()) <= {0.0, 1.0}
    for step in range(steps):
        inside = found["inside"][step] > 0
        rows, slots = found["rows"][step][inside], found["slot"][step][inside]
        assert bags.bag[rows].tolist() == found["bag"][step][slots].tolist()
        for slot, a in enumerate(found["bag"][step]):
            assert sorted(rows[slots == slot]) == np.flatnonzero(bags.bag == a).tolist()


# The loss


class Case:
    """A latent function at some point, and all terms of the loss of three bags out of ten."""

    penalty, strength, bag_strength = 0.6, 2.5, 1.7
    batch = np.array([6, 0, 3])
    noise_name = None

    def __init__(self):
        bags, self.y, offset = toy()
        rng = np.random.default_rng(2)
        self.bags = bags.with_arrays(rng.normal(0.2, 1.0, bags.X.shape))
        self.known = offset[bags.rows]
        self.tau_factor = bags.weight_squares()
        self.similar = rng.normal(0.3, 0.3, (len(bags.X), 5))
        self.bag_kernel = np.exp(-((np.arange(10)[:, None] - np.arange(10)) ** 2) / 30)
        self.prepare(rng)

    def objective(self):
        return BagLoss(self.function, self.likelihood, get_link(self.link), self.log_prior, True)

    def arguments(self):
        names = ("penalty", "strength", "bag_kernel", "bag_strength")
        X, weight, known, similar = (
            np.asarray(values, np.float32) for values in (self.bags.X, self.bags.weight, self.known, self.similar)
        )
        batches = Batches(self.bags)(self.batch[None, None])(0)
        return (
            {name: getattr(self, name) for name in names},
            FlatBags(X, weight, known, self.y, {"tau_factor": self.tau_factor}, similar),
            {name: values[0] for name, values in batches.items()},
        )

    def loss_by_loops(self, vector, every=1):
        """Every so many of the individuals are compared with each other."""
        f_of, squares, log_prior, noise = self.unpack(vector)
        members = [np.flatnonzero(self.bags.bag == a) for a in self.batch]
        rows, b = np.concatenate(members), len(self.batch)
        f = {row: f_of(self.bags.X[row]) for row in rows}
        total = (self.penalty * squares / 2 - log_prior) / len(self.bags)
        for a, own in zip(self.batch, members, strict=True):
            T = sum(self.bags.weight[row] * self.psi(f[row] + self.known[row]) for row in own)
            total -= self.log_density(self.y[a], T, self.tau_factor[a], noise) / b
        for i, j in product(rows[::every], repeat=2):
            alike = self.similar[i] @ self.similar[j]
            total += self.strength / len(rows[::every]) ** 2 * alike * (f[i] - f[j]) ** 2 / 2
        means = [sum(f[row] for row in own) / len(own) for own in members]
        for i, j in product(range(b), repeat=2):
            alike = self.bag_kernel[self.batch[i], self.batch[j]]
            total += self.bag_strength / b**2 * alike * (means[i] - means[j]) ** 2 / 2
        return total


class NetworkCase(Case):
    """Three hidden units, then the logarithm of a learnt parameter of the noise."""

    def prepare(self, rng):
        self.function = Network(3)
        self.log_prior = make_log_prior((), "default", self.likelihood, get_link(self.link))
        noise = [self.log_noise] if self.noise_name else []
        self.vector = np.concatenate([rng.normal(0.0, 0.5, 9), [0.3, -0.5, 0.2, 0.4], noise])

    def split(self, vector):
        return vector[:6].reshape(2, 3), vector[6:9], vector[9:12], vector[12]

    def unpack(self, vector):
        inner, bias, outer, constant = self.split(vector)

        def f_of(x):
            hidden = [max(0.0, x[0] * inner[0, k] + x[1] * inner[1, k] + bias[k]) for k in range(3)]
            return sum(h * o for h, o in zip(hidden, outer, strict=True)) + constant

        noise = vector[13] if self.noise_name else None
        log_prior = self.noise_prior.logpdf(noise) if self.noise_name else 0.0
        return f_of, np.sum(inner**2) + np.sum(outer**2), log_prior, noise

    def state(self):
        names = ("inner", "bias", "outer", "constant")
        weights = {n: np.asarray(v, np.float32) for n, v in zip(names, self.split(self.vector), strict=True)}
        noise = {self.noise_name: self.log_noise} if self.noise_name else {}
        return {"weights": weights, "parameters": Parameters((), noise, ())}

    def ravel(self, slopes):
        weights = [np.ravel(slopes["weights"][name]) for name in ("inner", "bias", "outer", "constant")]
        return np.concatenate([*weights, *(np.ravel(v) for v in slopes["parameters"].likelihood.values())])


class PoissonExp(NetworkCase):
    likelihood, link, psi = likelihoods.Poisson(), "exp", staticmethod(np.exp)

    @staticmethod
    def log_density(y, T, tau_factor, noise):
        return y * np.log(T) - T - gammaln(y + 1)


class NormalIdentity(NetworkCase):
    likelihood, link, psi = likelihoods.Normal(), "identity", staticmethod(float)
    noise_name, log_noise, noise_prior = "tau", np.log(40.0), norm(0.0, 3.0)

    @staticmethod
    def log_density(y, T, tau_factor, noise):
        return norm(T, np.sqrt(np.exp(noise) * tau_factor)).logpdf(y)


class PoissonSquare(Case):
    """Landmark features; kernel parameters learnt under their priors."""

    likelihood, link, psi = likelihoods.Poisson(), "square", staticmethod(np.square)
    log_density = staticmethod(PoissonExp.log_density)

    def prepare(self, rng):
        kernel = kernels.RBF().resolve(("rain", "height"))
        self.function = LandmarkFunction(FeatureMap((kernel,), 0.8))
        self.log_prior = make_log_prior((kernel,), "default", self.likelihood, get_link("square"))
        self.known = self.known + 1.0
        self.landmarks = rng.normal(size=(3, 2))
        self.vector = np.concatenate([rng.normal(0.0, 0.4, 4), np.log([0.2, 1.3])])

    def unpack(self, vector):
        beta, (log_variance, log_lengthscale) = vector[:4], vector[4:]

        def f_of(x):
            A = landmark_features([x], self.landmarks, np.exp(log_variance), np.exp(log_lengthscale), 0.8)
            return (A @ beta)[0]

        # medians: the typical variance of the square link, the typical distance sqrt(2 d)
        log_prior = norm(np.log(0.1), 1.0).logpdf(log_variance) + norm(np.log(2.0), 1.0).logpdf(log_lengthscale)
        return f_of, np.sum(beta**2), log_prior, None

    def state(self):
        kernel = {"variance": self.vector[4], "lengthscale": self.vector[5]}
        beta = self.vector[:4].astype(np.float32)
        return {"weights": {"beta": beta}, "parameters": Parameters((kernel,), {}, (self.landmarks,))}

    def ravel(self, slopes):
        (kernel,) = slopes["parameters"].kernel
        return np.array([*slopes["weights"]["beta"], kernel["variance"], kernel["lengthscale"]], float)


@pytest.mark.parametrize("kind", [PoissonExp, PoissonSquare, NormalIdentity])
def test_loss_and_its_slopes_are_those_of_loops(x64, kind):
    case = kind()
    value, slopes = jax.jit(jax.value_and_grad(case.objective().loss))(case.state(), *case.arguments())
    assert float(value) == pytest.approx(case.loss_by_loops(case.vector), rel=2e-6)
    step, loss = 1e-5, case.loss_by_loops
    differences = [
        (loss(case.vector + step * e) - loss(case.vector - step * e)) / (2 * step) for e in np.eye(len(case.vector))
    ]
    found = case.ravel(slopes)
    assert np.abs(found).min() > 1e-3
    np.testing.assert_allclose(found, differences, rtol=1e-3, atol=1e-4 * np.abs(differences).max())


def test_some_individuals_of_a_large_mini_batch_are_compared(x64, monkeypatch):
    case = PoissonExp()
    constants, data, batch = case.arguments()
    for most, every in ((len(batch["rows"]), 1), (len(batch["rows"]) - 1, 2), (len(batch["rows"]) // 3 + 1, 3)):
        monkeypatch.setattr(bagloss, "COMPARED", most)
        value = float(case.objective().loss(case.state(), constants, data, batch))
        assert value == pytest.approx(case.loss_by_loops(case.vector, every), rel=2e-6)
        assert every == 1 or abs(value - case.loss_by_loops(case.vector)) > 1e-3


def test_padding_is_inert(x64):
    case = PoissonExp()
    constants, data, batch = case.arguments()
    loss = jax.jit(case.objective().loss)
    value = float(loss(case.state(), constants, data, batch))
    junk = {"rows": [7, 7, 20], "slot": [1, 2, 0], "inside": [0.0, 0.0, 0.0]}
    longer = batch | {name: np.append(batch[name], more).astype(batch[name].dtype) for name, more in junk.items()}
    assert len(longer["rows"]) == len(batch["rows"]) + 3
    assert float(loss(case.state(), constants, data, longer)) == pytest.approx(value, rel=1e-6)
