"""From a user's choices and data to a fitting problem: checks, standard units, kernel, landmarks, starting values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from vbagg import kernels
from vbagg.bags import Bags
from vbagg.elbo import Parameters, Spec
from vbagg.features import FeatureMap
from vbagg.geodesic import GeodesicChart
from vbagg.kernels import Kernel
from vbagg.landmarks import Landmarks, check_landmarks, choose_landmarks, representatives
from vbagg.likelihoods.base import Facts, Likelihood
from vbagg.likelihoods.censored import censored
from vbagg.likelihoods.reported import COMPLETENESS, reported
from vbagg.links import Link
from vbagg.models.base import FittedState
from vbagg.models.frame import Frame, check_is_bags, drop_inert, observed_bags
from vbagg.models.outputs import FEWEST, GivenOutputs, given_outputs
from vbagg.models.reporting import told_of
from vbagg.observed import Observed
from vbagg.portions import Outline, Portions, Sample
from vbagg.scaling import Scaler
from vbagg.stored import DistantBags

LITTLE_NOISE, SHORT = 10.0, 0.25
"""By what noise is divided and length-scales are multiplied in the start that explains totals without noise."""
LOUDER = 10.0
"""By what variances are multiplied from one start to a louder one."""
RESIDUALS = ("auto", "exact", "diagonal", "subset")


def default_kernel(bags: Bags | Outline, with_individual_effect: bool = False) -> Kernel:
    """Linear and ARD terms on the covariates, Matern 3/2 on coordinate columns, perhaps an effect of individuals."""
    covariates = tuple(i for i in range(bags.n_features) if i not in bags.coordinates)
    parts: list[Kernel] = []
    if covariates:
        parts += [kernels.Linear(covariates), kernels.RBF(covariates, ard=True)]
    if bags.coordinates:
        parts.append(kernels.Matern32(bags.coordinates))
    if with_individual_effect:
        parts.append(kernels.White())
    return parts[0] if len(parts) == 1 else kernels.Sum(tuple(parts))


@dataclass(frozen=True)
class TrainingData:
    """Checked data of a fit: portions of bags without zero-weight rows, outputs, and the units to learn in."""

    portions: Portions
    y: np.ndarray
    """Outputs; where only bounds are known, numbers between them."""
    trials: np.ndarray | None
    likelihood: Likelihood
    """That of the outputs, or of what is known of them."""
    facts: Facts
    """What the likelihood knows of each bag, in the units of training."""
    told: Facts
    """The part of it that a user told: bounds of outputs, their completeness, errors of weights."""
    exposure: np.ndarray
    """What outputs are divided by to give rates, where they are reported in full."""
    frame: Frame
    seen: np.ndarray
    """Which of the bags that were given have an output; the others are not here."""
    notes: tuple[str, ...] = ()
    """What a user should know of those."""

    @property
    def outline(self) -> Outline:
        """What is known of all bags."""
        return self.portions.outline

    @property
    def observed(self) -> Observed:
        """By which predictions recognise these bags."""
        outline = self.outline
        return Observed(tuple(outline.labels.tolist()), outline.fingerprints, self.y, self.facts)

    @property
    def bags(self) -> Bags:
        """All bags, where they are in this process."""
        return self.portions.only.bags

    @property
    def offset(self) -> np.ndarray:
        """Known term of `f` of their rows."""
        return self.portions.only.offset


def training_data(
    bags: Any,
    y: Any,
    trials: Any,
    offset: Any,
    likelihood: Likelihood,
    link: Link,
    client: Any = None,
    upper: Any = None,
    completeness: Any = None,
    weight_sd: Any = None,
    frame: Frame | None = None,
) -> TrainingData:
    """Check what `fit` was given; with a `client` of Dask its workers hold the individuals.

    Units are those of the data, unless there is a `frame` already.
    """
    if isinstance(bags, DistantBags) and client is None:
        bags = Bags(**bags.rows().read())
    elif not isinstance(bags, DistantBags):
        check_is_bags(bags)
    if len(bags) < FEWEST:
        raise ValueError(f"`bags` must hold at least 2 bags; got {len(bags)}. One total says nothing of variation.")
    outputs = given_outputs(bags, y, trials, likelihood, upper)
    outputs.require(FEWEST)
    portions = _observed_portions(bags, offset, outputs.seen, client)
    told = {name: values[outputs.seen] for name, values in told_of(bags, completeness, weight_sd, outputs.seen).items()}
    return _in_units(outputs, portions, likelihood, told, lambda y, per: frame or Frame.fit(portions, y, link, per))


def further_data(
    bags: Bags, y: Any, trials: Any, offset: Any, upper: Any, likelihood: Likelihood, link: Link | None, frame: Frame
) -> TrainingData:
    """Check further outputs of a fit, which see the function of its `frame`: in the same units if `link` is None."""
    frame.check_bags(bags)
    outputs = given_outputs(bags, y, trials, likelihood, upper)
    outputs.require(1)
    portions = _observed_portions(bags, offset, outputs.seen, None)
    return _in_units(
        outputs, portions, likelihood, {}, lambda y, per: frame if link is None else frame.beside(y, link, per)
    )


def _in_units(
    outputs: GivenOutputs,
    portions: Portions,
    likelihood: Likelihood,
    told: Facts,
    frame_of: Callable[[np.ndarray, np.ndarray], Frame],
) -> TrainingData:
    """Outputs that were observed, with what the likelihood must know of their bags, in the units of their rates."""
    known = outputs.observed()
    exposure = likelihood.exposure(portions.outline, known.trials) * told.get(COMPLETENESS, 1.0)
    frame = frame_of(known.typical, exposure)
    facts = likelihood.facts(portions.outline, known.trials, frame.rate_scale) | told
    of_data, bounds = censored(reported(likelihood, told), known.y, known.upper, known.labels, facts)
    return TrainingData(
        portions,
        known.typical,
        known.trials,
        of_data,
        facts | bounds,
        told | bounds,
        exposure,
        frame,
        outputs.seen,
        outputs.notes,
    )


def _observed_portions(bags: Bags | DistantBags, offset: Any, seen: np.ndarray, client: Any) -> Portions:
    """Portions of the bags whose outputs are known.

    Individuals of other bags have no say in units and landmarks: a fit is that of the observed bags alone.
    """
    chosen: Bags | DistantBags
    if isinstance(bags, DistantBags):
        chosen = bags if seen.all() else bags[seen]
    else:
        chosen, offset = observed_bags(*drop_inert(bags, offset), seen)
    if client is None:
        assert isinstance(chosen, Bags)
        return Portions.of(chosen, offset)
    from vbagg.cluster import portions_on

    return portions_on(client, chosen, offset)


def held_out_score(
    frame: Frame, likelihood: Likelihood, held_out: Any, name: str
) -> Callable[[FittedState], float] | None:
    """Function that scores a fitted state by its mean log predictive density on held-out `(bags, y)`.

    A state whose predictions are not finite scores nan.
    """
    if held_out is None:
        return None
    if not (isinstance(held_out, tuple) and len(held_out) == 2):
        raise TypeError(f"`{name}` must be a pair (bags, y); got {type(held_out).__name__}.")
    bags, y = held_out
    frame.check_bags(bags)
    if likelihood.needs_trials:
        raise ValueError(f"`{name}` cannot carry `trials`; compare {likelihood.name} models with `score` instead.")
    outputs = given_outputs(bags, y, None, likelihood)
    outputs.require(1)
    to_predict(bags, likelihood, None)  # refuses what does not fit to these bags

    def score(fitted: FittedState) -> float:
        try:
            law = fitted.predictive_bags(bags, None, None)
        except ValueError:  # laws refuse moments that are not finite
            return float("nan")
        return float(np.mean(law.log_prob(outputs.y)[outputs.seen]))

    return score


def resolve_components(kernel: Kernel | None, landmarks: Any, bags: Bags | Outline) -> tuple[tuple[Kernel, ...], bool]:
    """Additive components of the user's or the default kernel on these columns, and whether landmarks are learnt."""
    check_kernel(kernel)
    options = landmarks if isinstance(landmarks, Landmarks) else Landmarks()
    components = (kernel or default_kernel(bags)).resolve(bags.feature_names).components()
    return joint_components(components) if options.joint else components, options.learn


def on_surfaces(
    components: tuple[Kernel, ...], data: TrainingData, random_state: int
) -> tuple[tuple[Kernel, ...], TrainingData]:
    """Give each `Graph` kernel the coordinates of its columns' surface, behind the columns of the data."""
    graphs = {leaf for component in components for leaf in component._leaves() if isinstance(leaf, kernels.Graph)}
    if not graphs:
        return components, data
    scaler, sample = data.frame.scaler, data.portions.sample(random_state)
    standard, placed = scaler.forward(sample.X), {}
    for leaf in sorted(graphs, key=repr):
        rows = (standard, leaf.source, sample.share)
        chart = GeodesicChart.fit(*rows, leaf.neighbours, leaf.dimensions, random_state)
        first = len(scaler.scale)
        placed[leaf] = leaf.on_coordinates(range(first, first + chart.dimensions))
        scaler = scaler.with_chart(chart)
    on_them = tuple(component._map_leaves(lambda leaf: placed.get(leaf, leaf)) for component in components)
    return on_them, replace(data, frame=replace(data.frame, scaler=scaler))


def check_kernel(kernel: Any) -> None:
    """Refuse anything but a kernel or None."""
    if kernel is not None and not isinstance(kernel, Kernel):
        raise TypeError(f"`kernel` must be a kernel such as vbagg.kernels.RBF(), or None; got {kernel!r}.")


def to_predict(
    bags: Bags, likelihood: Likelihood, trials: Any, completeness: Any = None, weight_sd: Any = None
) -> tuple[Likelihood, Facts]:
    """The likelihood of outputs that are predicted, and what it must know of their bags."""
    likelihood.check_trials(trials)
    n_trials = None if trials is None else bags.align(trials, "trials")
    told = told_of(bags, completeness, weight_sd)
    return reported(likelihood, told), likelihood.facts(bags.drop_zero_weight(), n_trials) | told


def start_parameters(spec: Spec, landmarks: Any, portions: Portions, scaler: Scaler, random_state: int) -> Parameters:
    """Starting values of all that is learnt, in standard units."""
    sample = portions.sample(random_state)
    sample = sample._replace(X=scaler.forward(sample.X))
    components = spec.feature_map.components
    share = spec.link.typical_variance / max(1, sum(c.needs_landmarks for c in components))
    log_params = tuple(component.initial_log_parameters(sample.X, share) for component in components)

    def medoids(columns: list[int]) -> np.ndarray:
        return np.unique(np.concatenate(portions.each(_medoids, scaler, columns)), axis=0)

    chosen = component_landmarks(components, log_params, landmarks, sample, medoids, scaler, random_state)
    likelihood = {name: np.log(prior.median) for name, prior in spec.likelihood.priors().items()}
    return Parameters(log_params, likelihood, chosen)


def component_landmarks(
    components: Sequence[Kernel],
    log_params: Sequence[Any],
    choice: Any,
    sample: Sample,
    medoids: Callable[[list[int]], np.ndarray],
    scaler: Scaler,
    random_state: int,
) -> tuple[np.ndarray | None, ...]:
    """Landmarks of each additive component in its own columns, in standard units; None for exact features.

    `sample` is in standard units; `medoids` gives one individual of each bag by its columns.
    """
    needing = [i for i, component in enumerate(components) if component.needs_landmarks]
    per_component = isinstance(choice, list | tuple)
    if per_component and len(choice) not in (len(needing), len(components)):
        raise ValueError(
            f"`landmarks` must have one entry per additive component that needs them ({len(needing)});"
            f" got {len(choice)}."
        )
    found: list[np.ndarray | None] = [None] * len(components)
    for order, i in enumerate(needing):
        own = choice
        if per_component:
            own = choice[i] if len(choice) == len(components) else choice[order]
        columns = list(components[i].columns_used)
        if isinstance(own, np.ndarray):
            user = check_landmarks(own, len(columns))
            found[i] = (user - scaler.centre[columns]) / scaler.scale[columns]
            continue
        option = own if isinstance(own, Landmarks) else Landmarks(number=own)
        if option.method == "per-bag":
            found[i] = medoids(columns)
            continue
        found[i] = choose_landmarks(
            sample.X[:, columns],
            sample.share,
            option.number,
            option.method,
            random_state,
            kernel=components[i],
            log_params=log_params[i],
            n_bags=sample.n_bags,
        )
    return tuple(found)


def _medoids(bags: Bags, scaler: Scaler, columns: list[int]) -> np.ndarray:
    """The individual of each bag that is nearest to its mean, in standard units."""
    return representatives(scaler.forward(bags.X)[:, columns], bags.weight, bags.bag)


def starting_points(start: Parameters, components: Sequence[Kernel], noise: Collection[str]) -> list[Parameters]:
    """The start, starts with longer and shorter length-scales, and where `noise` is learnt one with little of it.

    The last is the other explanation of totals that vary much: not noise, but a function that varies over short
    distances.
    """

    def stretched(factor: float) -> Parameters:
        def change(path: Any, leaf: Any) -> Any:
            return leaf + np.log(factor) if getattr(path[-1], "key", None) == "lengthscale" else leaf

        masks = tuple(kernels.trainable_mask(component) for component in components)
        moved = jax.tree_util.tree_map_with_path(change, start.kernel)
        kept = jax.tree.map(lambda free, new, old: new if free else old, masks, moved, start.kernel)
        return replace(start, kernel=kept)

    ladder = [start, stretched(2.0), stretched(0.5)]
    if not noise:
        return ladder
    little = {name: value - np.log(LITTLE_NOISE) * (name in noise) for name, value in start.likelihood.items()}
    return [*ladder, replace(stretched(SHORT), likelihood=little)]


def louder(start: Parameters, components: Sequence[Kernel], link: Link, search: bool = True) -> Parameters:
    """A change of all log-parameters that multiplies the variances of what individuals share.

    None where the link fixes the units of `f`: a logarithm that varies much more than is usual is no good start. None
    either where no start is to be searched for.
    """

    def change(path: Any, leaf: Any) -> Any:
        return np.full(np.shape(leaf), np.log(LOUDER) if getattr(path[-1], "key", None) == "variance" else 0.0)

    still = jax.tree.map(np.zeros_like, start)
    if not (search and link.in_units_of_data):
        return still
    shared = (component.exact_features or component.needs_landmarks for component in components)
    changes = zip(jax.tree_util.tree_map_with_path(change, start.kernel), still.kernel, shared, strict=True)
    return replace(still, kernel=tuple(new if own else old for new, old, own in changes))


def trainable(components: Sequence[Kernel], start: Parameters, learn_landmarks: bool) -> Parameters:
    """Flags of the parameters that the search may move."""
    return Parameters(
        tuple(kernels.trainable_mask(component) for component in components),
        dict.fromkeys(start.likelihood, True),
        tuple(None if Z is None else learn_landmarks for Z in start.landmarks),
    )


def joint_components(components: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Components with all that need landmarks merged into one sum, so that they share landmarks."""
    without = [c for c in components if not c.needs_landmarks]
    rest = [c for c in components if c.needs_landmarks]
    return (*without, kernels.Sum(tuple(rest)) if len(rest) > 1 else rest[0]) if rest else tuple(without)


def make_spec(
    components: tuple[Kernel, ...], likelihood: Likelihood, link: Link, approximation: str, own_means: int = 0
) -> Spec:
    """Static description of the model; the Normal's expectation is exact under every approximation."""
    approximation = "matched" if likelihood.exact else approximation
    likelihood.check_approximation(approximation)
    return Spec(FeatureMap(components, link.mean_sd, own_means), likelihood, link, approximation)
