"""VBAgg: a Gaussian process for individuals, learnt from bag totals by variational inference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from html import escape
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import numpy as np

from vbagg import kernels
from vbagg.bags import Bags
from vbagg.effects import BagEffects
from vbagg.elbo import APPROXIMATIONS
from vbagg.errors import ConvergenceWarning, unknown_name
from vbagg.inference import get_inference
from vbagg.information import Information
from vbagg.kernels import Kernel, Prior
from vbagg.latent_parts import LatentParts
from vbagg.laws import Law
from vbagg.likelihoods import get_likelihood
from vbagg.likelihoods.base import Likelihood
from vbagg.links import get_link
from vbagg.models import setup
from vbagg.models.above import Draws
from vbagg.models.areas import AreaSums
from vbagg.models.base import BagModel
from vbagg.models.fitted import Fitted
from vbagg.models.learning import Choices, Learnt, learn
from vbagg.models.observations import FittedObservations, Observations, check_also
from vbagg.models.predicted import Member
from vbagg.posterior import Posterior, Simulated
from vbagg.progress import Report, reporting
from vbagg.stored import DistantBags

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_MEMORY = 2e9


class VBAgg(BagModel):
    """Rates of individuals from totals of bags.

    Parameters
    ----------
    likelihood
        "negative_binomial", "poisson", "zero_inflated_poisson", "binomial", "beta_binomial", "normal", "exponential",
        or an instance from `vbagg.likelihoods` (for a known `tau` or `dispersion`).
    link
        "exp", "square", "identity" or "logistic"; None for the first that the likelihood works with.
    approximation
        Of the expected log density: "matched" (default), "taylor", "bound" or "montecarlo".
    kernel
        A kernel; None: linear + ARD RBF on the covariates, plus Matern 3/2 on coordinates, plus an effect of each
        individual (`White`) for counts. Its numbers are in standard units: one sd of a covariate, one common sd of the
        coordinates.
    landmarks
        None (chosen from the size of the data), a number, an array, a `vbagg.Landmarks`, or a list of these with
        one entry per additive component that needs landmarks.
    residual
        Within-bag covariance: "exact", "diagonal", "subset", or "auto" (exact up to 128 individuals, then subset).
    inference
        "newton" (deterministic), "adam" (the paper's), or an instance `vbagg.Newton(...)`, `vbagg.Adam(...)`.
    priors
        "default", None, or a mapping from parameter names to `vbagg.Prior` that replaces some defaults.
    hyper
        "average": predictions average over up to twelve values of the parameters that stand for their posterior;
        "point": parameters at their best, as with inference "adam" and in fits so long that they are in single
        precision.
    memory
        Bytes of features that a fit may keep between its passes over the individuals; those beyond it are computed
        again in each pass. None for 2 GB. Workers of a cluster keep less where their own limit is near.
    random_state
        Seed of landmark choice, subset residuals and stochastic inference.

    Notes
    -----
    A fitted model holds the individuals of its training bags for `elbo_mc_`. Saved models and pickles leave them out.
    """

    _fitted: Fitted
    _training: Learnt | None
    _elbo_mc: float | None
    _not_stored: ClassVar[tuple[str, ...]] = ("_training",)
    observations_: tuple[FittedObservations, ...] = ()
    """What was learnt of `also`."""

    def __init__(
        self,
        likelihood: str | Likelihood = "negative_binomial",
        link: str | None = None,
        approximation: str = "matched",
        kernel: Kernel | None = None,
        landmarks: Any = None,
        residual: str = "auto",
        inference: Any = "newton",
        priors: str | Mapping[str, Prior] | None = "default",
        hyper: str = "average",
        memory: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.likelihood, self.link, self.approximation = likelihood, link, approximation
        self.kernel, self.landmarks, self.residual = kernel, landmarks, residual
        self.inference, self.priors, self.hyper = inference, priors, hyper
        self.memory, self.random_state = memory, random_state

    def fit(
        self,
        bags: Bags | DistantBags,
        y: Any,
        trials: Any = None,
        offset: Any = None,
        validation: tuple[Bags, Any] | None = None,
        progress: bool | Report | None = None,
        early_stop: tuple[Bags, Any] | None = None,
        client: Any = None,
        upper: Any = None,
        also: Sequence[Observations] | Observations | None = None,
        completeness: Any = None,
        weight_sd: Any = None,
        start: VBAgg | None = None,
    ) -> Self:
        """Learn from bag outputs.

        Parameters
        ----------
        bags
            The individuals of each bag; also from `Bags.from_parquet` or `Bags.from_dask`.
        y
            Output of each bag: an array in the order of `bags.labels`, or a Series by label. NaN where there is none:
            the fit is that of the other bags (also of their units and landmarks), and `status_.notes` names these.
        trials
            Number examined in each bag, for the binomial.
        offset
            Known term of `f` per row of the data that made `bags`.
        validation
            `(bags, y)` held out: decides between starts, learning rates and seeds.
        progress
            None, True, False or a function of one dict per evaluation.
        early_stop
            `(bags, y)` held out: decides when `adam` stops.
        client
            A `distributed.Client` of Dask, whose workers then hold the individuals and do the work; the result is the
            same. Bags from `Bags.from_parquet` and `Bags.from_dask` are read by the workers and never by this process.
        upper
            Where outputs are known within bounds only, the largest that is possible (`inf` for none), `y` being the
            least: of suppressed counts below five 0 and 4. NaN, or the same as `y`, where `y` is the output. An array
            or a Series, as `y`. Counts inside an interval, or below one without an upper end, are 512 at most.
        also
            `vbagg.Observations` of further bags, perhaps with a likelihood of their own, that depend on the same
            latent function: survey points, for example. `observations_` says what was learnt of them.
        completeness
            Share of what occurs in each bag that is reported, above 0 and at most 1, by which the expected output is
            multiplied; rates and totals are those of all that occurs. One number, or one for each bag, as `y`.
        weight_sd
            How far off the weight of each bag may be, as a standard deviation relative to it: 0.1 for 10%. An error is
            shared by all individuals of a bag, and differs from bag to bag. One number, or one for each bag, as `y`.
        start
            A model with the same likelihood, link and kernel that was fitted to data much like these, such as other
            outputs of the same bags. Its landmarks and units are taken, the search begins at its parameters and nowhere
            else, and the average is over parameters that differ from the new best ones as its own do.
        """
        choices, further = self._choices(), check_also(also)
        if further and client is not None:
            raise ValueError("`also` goes with a fit in one process; leave out `client`.")
        told = {"upper": upper, "completeness": completeness, "weight_sd": weight_sd}
        begun = self._begun_at(start)
        frame = None if begun is None else begun.frame
        data = setup.training_data(
            bags, y, trials, offset, choices.likelihood, choices.link, client, **told, frame=frame
        )
        with reporting(progress, "vbagg") as report:
            learnt = learn(choices, data, report, validation, early_stop, further, begun)
        fit = learnt.fit
        self._fitted, self._training, self._elbo_mc = learnt.fitted, learnt, None
        self.elbo_, self.status_, self.history_ = fit.elbo, fit.status, fit.history
        self.observations_ = learnt.observations
        if not fit.status.converged:
            warnings.warn(fit.status.message, ConvergenceWarning, stacklevel=2)
        return self

    def posterior(self, X: Any, offset: Any = None, smooth: bool = False, bag_effect: str = "risk") -> Posterior:
        """Posterior of the rate of individuals.

        Parameters
        ----------
        X
            Features of new individuals, or `Bags`. Of bags that the model was fitted to, recognised by label and
            individuals, the rates are conditioned on the bag's own output; rows follow `bags.X`.
        offset
            Known term of `f` per row.
        smooth
            Leave out the individual effect (`kernels.White`) and the variation of effects inside bags: the mean rate of
            individuals with these features.
        bag_effect
            Whether the bag's own effect (negative binomial, beta-binomial) is part of the rates of its individuals,
            `"risk"`, or only of how outputs are reported, `"reporting"`. As risk it varies inside the bag: the law of
            Fairfield Smith, by which what is unexplained falls with the square root of the size of an area.
        """
        return self._checked().posterior(X, offset, smooth, bag_effect)

    def simulate(
        self,
        bags: Bags,
        trials: Any = None,
        offset: Any = None,
        completeness: Any = None,
        weight_sd: Any = None,
        n: int = 1,
        seed: int = 0,
    ) -> Simulated:
        """Joint draws of what the rates may be, given all that was observed, and of new outputs that come of them.

        Parameters
        ----------
        bags, trials, offset, completeness, weight_sd
            As for `fit`. Outputs are reported as completely, and weights are as far off, as is told here.
        n, seed
            Number of draws, and their seed.

        Returns
        -------
        Simulated
            `rates` (n, rows) of individuals as `posterior(bags)` has them, and `outputs` (n, bags).
        """
        fitted = self._checked()
        fitted.frame.check_bags(bags)
        if n < 1:
            raise ValueError(f"`n` must be at least 1; got {n}.")
        return fitted.simulated(bags, trials, offset, completeness, weight_sd, n, seed)

    def weight_above(
        self, bags: Bags, thresholds: Any, n: int = 200, seed: int = 0, part: int = 0, offset: Any = None
    ) -> np.ndarray:
        """Joint draws of the weight, such as people, of the individuals whose rate is above each threshold.

        Parameters
        ----------
        bags
            Those that the model was fitted to, whose individuals are conditioned on their bag's output, or others.
        thresholds
            Rates (k).
        n, seed
            Number of draws, and their seed.
        part
            Bags that are asked about one after the other go together by one seed and a number of their own each: draws
            share parameters and weights of the process, and can be added up.
        offset
            Known term of `f` per row.

        Returns
        -------
        ndarray of shape (n, k)
            Its mean is the sum of the weight times `posterior(bags).exceedance`, up to the error of so many draws.
        """
        fitted = self._checked()
        fitted.frame.check_bags(bags)
        rates, place = np.unique(np.asarray(thresholds, dtype=float).ravel(), return_inverse=True)
        if n < 1 or not np.isfinite(rates).all():
            raise ValueError(f"`n` must be at least 1 and `thresholds` finite; got {n} and {thresholds!r}.")
        return fitted.weight_above(bags, rates, offset, bags.weight, Draws(n, seed, part))[:, place]

    def latent_parts(self, X: Any, place: Sequence[str] = ("x", "y")) -> LatentParts:
        """How well the latent function is known of new individuals: what covariates say of it, and what the place says.

        Where the standard deviation of what covariates say is larger than for nearly all training individuals, a
        prediction is an extrapolation.

        Parameters
        ----------
        X
            Features of individuals.
        place
            Names of the columns with coordinates.
        """
        return self._checked().latent_parts(X, place)

    def posterior_bags(self, bags: Bags, offset: Any = None) -> Posterior:
        """Posterior of each bag's expected total."""
        return self._checked().posterior_bags(bags, offset)

    def knows(self, bags: Bags, offset: Any = None) -> np.ndarray:
        """Whether each bag (b) is one that the model was fitted to, recognised by label and individuals."""
        fitted = self._checked()
        fitted.frame.check_bags(bags)
        return fitted.knows(bags, offset)

    def bag_effects(self, bags: Bags, trials: Any = None, offset: Any = None) -> BagEffects:
        """How far the output of each bag is above what covariates and neighbours say, and how odd that is.

        Parameters
        ----------
        bags
            Those that the model was fitted to. Of others, and of those without an output, `effect` is the prior and
            `chance` NaN.
        trials
            Number examined in each bag, for the binomial.
        offset
            Known term of `f` per row.
        """
        return self._checked().bag_effects(bags, trials, offset)

    def information(self, bags: Bags, offset: Any = None) -> Information:
        """How much of what may vary inside each bag the data have settled, from 0 to 1.

        A total says nothing of where in its bag rates are high; covariates, the place and other bags may. This is the
        share of the prior variance of each individual's latent value, above the mean of its bag, that is gone.

        Parameters
        ----------
        bags
            Those that the model was fitted to, or others. All are asked about rates as `posterior(bags)` has them, with
            effects of individuals and the variation of effects inside bags, of which outputs tell nothing.
        offset
            Known term of `f` per row.

        Returns
        -------
        Information
            `individuals` (n, in the order of `bags.X`), `bags` (b) and `overall`.
        """
        return self._checked().information(bags, offset)

    def posterior_areas(self, bags: Bags, row: Any, area: Any, weight: Any = None) -> Posterior:
        """Posterior of the totals of areas that are made of parts of bags.

        Parts of bags that the model was fitted to are conditioned on the bag's output: an area that is such a bag has
        the total of `posterior_bags`, areas that make up a bag add up to it.

        Parameters
        ----------
        bags
            The individuals, those of observed bags among them.
        row
            (k) number of a row of `bags.X`.
        area
            (k) number, from 0, of the area that it belongs to; a row may belong to several.
        weight
            (k) population of the row in that area; by default that of the row.
        """
        fitted = self._checked()
        fitted.frame.check_bags(bags)
        at, areas = np.asarray(row, dtype=np.intp), np.asarray(area, dtype=np.intp)
        own = bags.weight[at] if weight is None else np.asarray(weight, dtype=float)
        if not at.shape == areas.shape == own.shape == (len(at),) or not len(at):
            raise ValueError(
                f"`row`, `area` and `weight` must be lists of the same length, at least 1; got shapes {at.shape},"
                f" {areas.shape} and {own.shape}."
            )
        empty = np.flatnonzero(np.bincount(areas, own, areas.max() + 1) <= 0) if areas.min() >= 0 else [areas.min()]
        if len(empty) or not (np.isfinite(own) & (own >= 0)).all():
            raise ValueError(
                f"areas must be numbered from 0 and have a positive weight each; area {empty[0] if len(empty) else '?'}"
                " has none. Leave such areas out and number the others."
            )
        return fitted.posterior_areas(bags, at, areas, own)

    def area_sums(self, bags: Bags, row: Any, area: Any, weight: Any, whole: Any) -> list[AreaSums]:
        """What some bags add to the areas of `posterior_areas`, whose weights in all bags sum to `whole`."""
        return self._checked().area_sums(bags, row, area, weight, whole)

    def area_law(self, sums: list[AreaSums]) -> Law:
        """The law of the totals of areas, from the sums over all bags of what `area_sums` gives."""
        return self._checked().area_law(sums)

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its learnt values, in standard units."""
        components, values = self._best.spec.feature_map.components, self._best.parameters.kernel
        fitted = [kernels.with_values(c, p) for c, p in zip(components, values, strict=True)]
        return fitted[0] if len(fitted) == 1 else kernels.Sum(tuple(fitted))

    @property
    def landmarks_(self) -> list[np.ndarray | None]:
        """Landmarks of each additive component in its own columns and the user's units; None where not needed."""
        components, landmarks = self._best.spec.feature_map.components, self._best.parameters.landmarks
        scaler = self._checked().frame.scaler
        return [
            None if Z is None else scaler.backward(np.asarray(Z), component.columns_used)
            for component, Z in zip(components, landmarks, strict=True)
        ]

    @property
    def parameters_(self) -> pd.DataFrame:
        """All learnt parameters: `value` in standard units, `user_value` in yours, `relevance` of ARD columns.

        `part` is the family of a kernel, or "likelihood"; `component` numbers the terms of the kernel.
        """
        import pandas as pd

        frame, best = self._checked().frame, self._best
        rows: list[dict[str, Any]] = []
        for number, pair in enumerate(zip(best.spec.feature_map.components, best.parameters.kernel, strict=True)):
            for row in kernels.describe(*pair, frame.column_names, frame.scaler.scale):
                rows.append({**row, "component": number, "part": row["kernel"], "columns": ", ".join(row["columns"])})
        for name, value in self.likelihood_parameters_.items():
            own = {"part": "likelihood", "parameter": name, "columns": "", "value": value, "user_value": value}
            rows.append(own | {"fixed": False})
        columns = ["component", "part", "parameter", "columns", "value", "user_value", "relevance", "fixed"]
        numbers = {"component": "Int64", "user_value": float, "relevance": float}
        return pd.DataFrame(rows, columns=columns).astype(numbers)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | dict.fromkeys(self._not_stored)

    def __repr__(self) -> str:
        if not hasattr(self, "_fitted"):
            return super().__repr__()
        return f"{super().__repr__()}, fitted:\n" + "\n".join(f"  {name}: {text}" for name, text in self._facts())

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        facts = self._facts() if hasattr(self, "_fitted") else [("status", "not fitted")]
        cells = "".join(f"<tr><th style='text-align:left'>{a}</th><td>{escape(b)}</td></tr>" for a, b in facts)
        return f"<table><caption>{escape(super().__repr__())}</caption>{cells}</table>"

    def _facts(self) -> list[tuple[str, str]]:
        fitted, status = self._checked(), self.status_
        learnt = ", ".join(f"{name} {value:.3g}" for name, value in self.likelihood_parameters_.items())
        values = f"{status.points} values of the parameters" if status.points > 1 else "the best parameters"
        return [
            ("data", f"{len(fitted.observed.labels)} bags"),
            ("likelihood", fitted.likelihood.name + (f" ({learnt})" if learnt else "")),
            ("link", fitted.spec.link.name),
            ("kernel", kernels.summary(self.kernel_, fitted.frame.column_names)),
            ("predictions", f"from {values}"),
            *((f"also {own.name}", str(own)) for own in self.observations_),
            ("status", " ".join([status.message, *status.notes])),
        ]

    @property
    def elbo_mc_(self) -> float:
        """ELBO of the fit by Monte Carlo with a control variate (512 fixed draws); comparable between models."""
        self._checked()
        if self._elbo_mc is None:
            if self._training is None or self._training.problem is None:
                raise AttributeError(
                    "elbo_mc_ needs the training data in this process, which a model from a file or from workers"
                    " does not hold."
                )
            best = self._training.fit
            with jax.enable_x64(True):
                problem = self._training.problem.by_draws(512)
                self._elbo_mc = problem.at(best.parameters, best.jitter).elbo(best.q)
        return self._elbo_mc

    def _begun_at(self, start: VBAgg | None) -> Fitted | None:
        """What a search begins with, refused if that is another model's."""
        if start is None:
            return None
        own, other = ((model.kernel, model._choices()) for model in (self, start))
        for name, this, that in (
            ("kernel", own[0], other[0]),
            ("likelihood", own[1].likelihood, other[1].likelihood),
            ("link", own[1].link, other[1].link),
        ):
            if this != that:
                raise ValueError(
                    f"`start` must be a model with the same `{name}`; it has {that!r}, and this {this!r}. Leave it out,"
                    " or fit a clone of it."
                )
        return start._checked()

    @property
    def _best(self) -> Member:
        return self._checked().optimum

    def _choices(self) -> Choices:
        likelihood = get_likelihood(self.likelihood)
        link = get_link(likelihood.links[0] if self.link is None else self.link)
        likelihood.check_link(link.name)
        setup.check_kernel(self.kernel)
        names = (
            ("approximation", self.approximation, APPROXIMATIONS),
            ("residual", self.residual, setup.RESIDUALS),
            ("hyper", self.hyper, ("point", "average")),
        )
        for name, value, known in names:
            if value not in known:
                raise unknown_name(name, value, known)
        is_number = isinstance(self.memory, Real) and not isinstance(self.memory, bool)
        if self.memory is not None and not (is_number and self.memory > 0):
            raise ValueError(f"`memory` must be a positive number of bytes, such as 2e9, or None; got {self.memory!r}.")
        return Choices(
            likelihood,
            link,
            self.approximation,
            self.kernel,
            self.landmarks,
            self.residual,
            get_inference(self.inference),
            self.priors,
            self.hyper == "average",
            DEFAULT_MEMORY if self.memory is None else float(self.memory),
            self.random_state,
        )
