"""The methods of the paper as lists of candidate models.

`VBAgg` with the default inference needs no learning rate; tuned on validation bags it chooses the strength of the
prior on the kernel's variance, tuned on the objective ("Obj") it is the default model. The methods called "Adam" follow
the paper's own procedure: its approximations (Taylor for the square link, the bound for exp), 30 landmarks, Adam, no
priors, learning rate by validation bags.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import vbagg
from vbagg import kernels
from vbagg.experiments.tuning import Grid, Method
from vbagg.kernels import Kernel
from vbagg.links import get_link

Candidates = dict[str, Any]
LINKS = {"Sq": "square", "Exp": "exp"}
PAPER_APPROXIMATION = {"square": "taylor", "exp": "bound", "identity": "matched"}
FIRM_VARIANCE = 0.1
MANIFOLD_STRENGTHS = {"poisson": (0.1, 1.0, 10.0), "normal": (0.001, 0.01, 0.1)}
"""In units of `f`, whose spread over individuals is larger for the Normal."""
LANDMARKS = 30
"""Of the paper's own VBAgg, Nystrom and bag-pixel, which also try half as many, as the paper does."""
PENALTIES = (1.0, 10.0, 0.1)
HIDDEN = (50, 20, 100)
RATES = (0.01, 0.05, 0.001)
SEEDS = (0, 1, 2)


def poisson_methods(
    kernel: Kernel,
    landmarks: Any = LANDMARKS,
    manifold_kernel: Kernel | None = None,
    variational_landmarks: Any = None,
) -> dict[str, Method]:
    """Methods of the Poisson experiments by name."""
    methods: dict[str, Method] = {}
    for suffix, link in LINKS.items():
        methods |= _variational(f"VBAgg-{suffix}", "poisson", link, kernel, variational_landmarks)
        methods[f"VBAgg-{suffix}-Adam"] = Method(partial(_adam_candidates, "poisson", link, kernel, landmarks))
    return methods | _baselines("-Exp", "poisson", "exp", kernel, landmarks, manifold_kernel)


def overdispersed_methods(kernel: Kernel, landmarks: Any = None) -> dict[str, Method]:
    """Beyond the paper: the negative binomial, whose dispersion takes up what the rates cannot explain."""
    return {
        f"VBAgg-{suffix}-NB": _variational("", "negative_binomial", link, kernel, landmarks)["-Obj"]
        for suffix, link in LINKS.items()
    }


def default_methods() -> dict[str, Method]:
    """Beyond the paper: what a user of counts gets who chooses nothing, and the same with Poisson counts."""

    def only(likelihood: str) -> Method:
        return Method(lambda quick: {"defaults": vbagg.VBAgg(likelihood, "exp")}, select="objective")

    return {"VBAgg-Default": only("negative_binomial"), "VBAgg-Default-Poisson": only("poisson")}


def surface_methods() -> dict[str, Method]:
    """Beyond the paper: kernels that follow the surface on which individuals lie."""
    kernel = kernels.Graph()
    return {
        f"VBAgg-{suffix}-Graph": _variational("", "poisson", link, kernel)["-Obj"] for suffix, link in LINKS.items()
    }


def normal_methods(kernel: Kernel, landmarks: Any = LANDMARKS) -> dict[str, Method]:
    """Methods of the Normal experiments by name."""
    methods = _variational("VBAgg", "normal", "identity", kernel)
    methods["VBAgg-Adam"] = Method(partial(_adam_candidates, "normal", "identity", kernel, landmarks))
    return methods | _baselines("", "normal", "identity", kernel, landmarks, None)


def _variational(name: str, likelihood: str, link: str, kernel: Kernel, landmarks: Any = None) -> dict[str, Method]:
    default = vbagg.VBAgg(likelihood, link, kernel=kernel, landmarks=landmarks)

    def only_default(quick: bool) -> Candidates:
        return {"default priors": vbagg.VBAgg(**default.get_params())}

    def with_firm_priors(quick: bool) -> Candidates:
        found = only_default(quick)
        priors = {"variance": vbagg.Prior(FIRM_VARIANCE * get_link(link).typical_variance, 0.3)}
        found[f"variance near {FIRM_VARIANCE:g} of the default"] = vbagg.VBAgg(
            **default.get_params() | {"priors": priors}
        )
        return found

    return {name: Method(with_firm_priors), f"{name}-Obj": Method(only_default, select="objective")}


def _adam_candidates(likelihood: str, link: str, kernel: Kernel, landmarks: Any, quick: bool) -> Candidates:
    return {
        f"rate {rate:g}": vbagg.VBAgg(
            likelihood,
            link,
            PAPER_APPROXIMATION[link],
            kernel=kernel,
            landmarks=vbagg.Landmarks(landmarks, "kmeans++") if isinstance(landmarks, int) else landmarks,
            inference=vbagg.Adam(learning_rates=(rate,), record_every=450, epochs=50 if quick else 450),
            priors=None,
        )
        for rate in ((0.01,) if quick else (0.05, 0.01))
    }


def _baselines(
    suffix: str, likelihood: str, link: str, kernel: Kernel, landmarks: Any, manifold_kernel: Kernel | None
) -> dict[str, Method]:
    strengths = (0.0, *MANIFOLD_STRENGTHS[likelihood])

    def smooth(strength: float) -> vbagg.Manifold | None:
        return vbagg.Manifold(strength, kernel=manifold_kernel) if strength else None

    def nystrom(kind: type[vbagg.Nystrom], quick: bool, smoothed: bool) -> Grid:
        def make(rate: float, penalty: float, manifold: float, share: float, seed: int) -> vbagg.Nystrom:
            own = _fewer(landmarks, share)
            return kind(likelihood, link, kernel, own, penalty, smooth(manifold), _training(rate, seed))

        axes = {"rate": RATES, "penalty": PENALTIES, "manifold": strengths if smoothed else (0.0,)}
        return Grid(_axes(axes | {"share": (1.0, 0.5), "seed": SEEDS}, quick), make)

    def network(quick: bool) -> Grid:
        def make(rate: float, penalty: float, manifold: float, hidden: int, seed: int) -> vbagg.ManifoldNN:
            return vbagg.ManifoldNN(likelihood, link, hidden, penalty, smooth(manifold), _training(rate, seed))

        axes = {"rate": RATES, "manifold": strengths[1:], "penalty": PENALTIES, "hidden": HIDDEN, "seed": SEEDS}
        return Grid(_axes(axes, quick), make)

    return {
        f"Nystrom{suffix}": Method(partial(nystrom, vbagg.Nystrom, smoothed=True), early_stop=True),
        f"NN{suffix}": Method(network, early_stop=True),
        "Bag-pixel": Method(partial(nystrom, vbagg.BagPixel, smoothed=False), early_stop=True),
        "Constant": Method(lambda quick: {"": vbagg.Constant(likelihood)}),
    }


def _axes(axes: dict[str, tuple[Any, ...]], quick: bool) -> dict[str, tuple[Any, ...]]:
    """All values, or the first of each."""
    return {axis: values[:1] for axis, values in axes.items()} if quick else axes


def _fewer(landmarks: Any, share: float) -> Any:
    """A share of the landmarks, a number or one for each component."""
    if isinstance(landmarks, int):
        return max(1, round(share * landmarks))
    return [_fewer(own, share) for own in landmarks]


def _training(rate: float, seed: int) -> vbagg.Adam:
    """The paper's training of the baselines: 450 epochs at most, early stopping from epoch 150."""
    return vbagg.Adam(learning_rates=(rate,), seeds=(seed,), record_every=450)
