"""Fit to all folds but one, predict the bags of that one: for the model and for its baselines."""

from __future__ import annotations

import hashlib
import inspect
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg import __version__
from vbagg.bags import Bags
from vbagg.errors import ConvergenceWarning, DataWarning
from vbagg.held import itself
from vbagg.inputs import some_bags, some_values
from vbagg.likelihoods import get_likelihood
from vbagg.models.constant import Constant
from vbagg.models.frame import check_is_bags
from vbagg.models.glm import BagGLM
from vbagg.models.observations import Observations, check_also
from vbagg.models.outputs import FEWEST, GivenOutputs, aligned_outputs, given_outputs
from vbagg.models.reporting import aligned_told
from vbagg.progress import Report, reporting
from vbagg.stored import DistantBags
from vbagg.validate.bag_scores import are_whole, scores_of
from vbagg.validate.content import content
from vbagg.validate.distant import Distant
from vbagg.validate.folds import as_folds, fold_names, is_number
from vbagg.validate.kept import Kept
from vbagg.validate.nested import nested
from vbagg.validate.result import FoldResult, Validation

Floats = NDArray[np.float64]
BASELINES: dict[str, Any] = {"constant": Constant, "glm": BagGLM}


def default_baselines(model: Any) -> dict[str, Any]:
    """What any model should beat: one constant rate, and a regression on bag means, with its likelihood."""
    likelihood = getattr(model, "likelihood", None)
    if likelihood is None:
        return {}
    return {name: kind(likelihood) for name, kind in BASELINES.items() if type(model) is not kind}


def cross_validate(
    models: Any,
    bags: Bags | DistantBags,
    y: Any,
    folds: Any = 5,
    trials: Any = None,
    offset: Any = None,
    progress: bool | Report | None = None,
    *,
    baselines: Any = "default",
    per: float | None = None,
    keep: str | os.PathLike[str] | None = None,
    client: Any = None,
    upper: Any = None,
    completeness: Any = None,
    weight_sd: Any = None,
    also: Mapping[str, Any] | None = None,
) -> Validation:
    """Predict every bag by models that were fitted without its fold.

    Parameters
    ----------
    models
        A model with scikit-learn's `get_params`, or models by name, the first of which is compared with the others.
        Clones are fitted. `fit` and `predictive_bags` are called as those of `VBAgg`; a model that only has `predict`
        gets the scores that need no law.
    bags, y, trials
        As for `VBAgg.fit`. Bags without an output (NaN) are in no fold. Of bags in files or in a data frame of Dask no
        process holds all: models that take a `client` are fitted by all workers together, others to the means of bags.
    folds
        A number of random folds, a vector in the order of `bags.labels`, a Series by label, or a function of the bags.
        See `random_folds` and `spatial_folds`.
    offset
        As for `VBAgg.fit`. Models that take none, or have another link than the first, are fitted without it.
    progress
        None, True, False or a function of one dict per fit, `fold`, `model`, `done`, `of`, and of one per finished
        fold: `finished`, `done`, `of` and `seconds`, or `kept` if it was finished before.
    baselines
        Further models by name, None for none. Default: `default_baselines` of the first model.
    per
        Scores are those of rates per so many units of weight (of trials, for the binomial). Default: a power of ten
        that suits the overall rate.
    keep
        Folder for the results of finished folds. Those that it holds of the same models, folds and data are taken, so
        that a validation that was interrupted goes on where it was.
    client
        A `distributed.Client` of Dask, whose workers each carry out one fold at a time; where bags are not in this
        process, all of them one fold after another.
    upper
        Refused: scores compare predictions with outputs, which bounds are not.
    completeness, weight_sd
        As for `VBAgg.fit`; also of the bags that are predicted, whose outputs are reported alike. Rates are those of
        all that occurs. Models whose `fit` takes neither are refused.
    also
        By name of a model, the `vbagg.Observations` that each of its fits learns from too; they are in no fold.

    Returns
    -------
    Validation
        A fit that fails is reported in `failures`, and its bags lack scores of that model.
    """
    if upper is not None:
        raise ValueError(
            "`upper` does not go with `cross_validate`, whose scores need the outputs themselves. Fit folds of your"
            " own, and take `model.score(bags, y, upper=upper)`; or give NaN for outputs that are hidden."
        )
    task = _check(models, baselines, bags, y, folds, trials, offset, client, completeness, weight_sd, also)
    names, results = fold_names(task.folds), dict[Any, FoldResult]()
    kept = None if keep is None else Kept(Path(keep), FoldResult, "fold")
    rests_on = "" if kept is None else task.digest()
    each, of = len(task.models), len(names) * len(task.models)
    with reporting(progress, "validation") as report:
        for fold in names:
            result = None if kept is None else kept.get(fold, rests_on)
            if result is not None:
                results[fold] = result
                report({"finished": fold, "done": len(results) * each, "of": of, "kept": True})
        waiting = [fold for fold in names if fold not in results]
        for fold, result in _carried_out(task, waiting, client, report, len(results) * each, of):
            results[fold] = result
            # a fit that failed may succeed the next time
            if kept is not None and not result.failures:
                kept.put(fold, result, rests_on)
            seconds = sum((result.seconds or {}).values())
            report({"finished": fold, "done": len(results) * each, "of": of, "seconds": seconds})
    inside, first = None, next(iter(task.models.values()))
    if isinstance(bags, Bags) and offset is None and hasattr(first, "posterior_areas"):
        told = {"trials": trials, "completeness": completeness, "weight_sd": weight_sd}
        inside = partial(nested, first, bags, y, progress=False, **told)
    return Validation(tuple(results[fold] for fold in names), per, test_inside=inside)


def _carried_out(
    task: Task, folds: list[Any], client: Any, report: Report, done: int, of: int
) -> Iterator[tuple[Any, FoldResult]]:
    """Folds and their results, in the order in which they end."""
    if client is None or not folds or task.distant is not None:
        for number, fold in enumerate(folds):
            yield fold, task.run(fold, report, done + number * len(task.models), of)
        return
    from vbagg.cluster import workers_of

    yield from workers_of(client).hold([task]).made(itself).ended(_one_fold, folds)


def _one_fold(task: Task, fold: Any) -> FoldResult:
    return task.run(fold, lambda entry: None, 0, 0)


def validate_fold(
    models: Any,
    bags: Bags,
    y: Any,
    folds: Any,
    fold: Any,
    trials: Any = None,
    offset: Any = None,
    progress: bool | Report | None = None,
    *,
    baselines: Any = "default",
    completeness: Any = None,
    weight_sd: Any = None,
) -> FoldResult:
    """Carry out one fold of `cross_validate`; `Validation` takes the results of all.

    Parameters as for `cross_validate`; `fold` is one of the entries of `folds`.
    """
    task = _check(models, baselines, bags, y, folds, trials, offset, None, completeness, weight_sd)
    names = fold_names(task.folds)
    if fold not in names:
        raise ValueError(f"`fold` must be one of `folds`, {some_values(names)}; got {fold!r}.")
    with reporting(progress, "validation") as report:
        return task.run(fold, report, 0, len(task.models))


@dataclass(frozen=True, eq=False)
class Task:
    """Checked inputs of a cross-validation, all in the order of the stored bags and rows."""

    models: dict[str, Any]
    bags: Bags
    y: Floats
    trials: Floats | None
    offset: Floats | None
    folds: NDArray[np.object_]
    notes: tuple[str, ...]
    distant: Distant | None = None
    """Where the individuals are; then `bags` has one for each bag, its mean."""
    marks: NDArray[np.uint64] | None = None
    """Numbers that depend on all individuals of each bag."""
    told: dict[str, Floats] = field(default_factory=dict)
    """Completeness and errors of weights, by the names that `fit` and `predictive_bags` have for them."""
    further: Mapping[str, tuple[Observations, ...]] = field(default_factory=dict)
    """What models learn from besides, by their names."""

    def run(self, fold: Any, report: Report, done: int, of: int) -> FoldResult:
        """All models on one fold."""
        import pandas as pd

        test = self.folds == fold
        tables, failures, seconds = [], [], {}
        notes = dict.fromkeys(self.notes)
        for number, (name, model) in enumerate(self.models.items()):
            report({"fold": fold, "model": name, "done": done + number, "of": of})
            started = time.perf_counter()
            try:
                with _convergence_noted(f"{name}, fold {fold}", notes):
                    scores = self._scores(name, model, test)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                failures.append({"fold": fold, "model": name, "bags": int(test.sum()), "reason": reason})
            else:
                known = {"bag": self.bags.labels[test], "y": self.y[test], "exposure": self._exposure()[test]}
                tables.append(pd.DataFrame({"model": name, "fold": fold, **known, **scores}))
            seconds[name] = time.perf_counter() - started
        table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
        return FoldResult(
            fold, tuple(self.models), self._likelihood(), int(test.sum()), table, tuple(failures), tuple(notes), seconds
        )

    def digest(self) -> str:
        """Tells models, folds and data, on which results rest, from any others."""
        found = hashlib.sha256(f"{__version__} {self._likelihood()} {self.notes}".encode())
        for name, model in self.models.items():
            found.update(f"{name} {type(model).__module__}.{type(model).__name__}".encode())
            for parameter, value in sorted(model.get_params(deep=False).items()):
                found.update(f"{parameter} {content(value)}".encode())
        bags = self.bags
        for values in (
            bags.labels,
            bags.feature_names,
            bags.coordinates,
            bags.bag,
            bags.X,
            bags.weight,
            self.y,
            self.folds,
            *([] if self.marks is None else [self.marks]),
            *(part for pair in sorted(self.told.items()) for part in pair),
        ):
            found.update(content(values).encode())
        found.update(f"{content(self.trials)} {content(self.offset)}".encode())
        for name, several in self.further.items():
            for one in several:
                found.update(f"{name} {[content(part) for part in _parts(one)]}".encode())
        return found.hexdigest()

    def _scores(self, name: str, model: Any, test: NDArray[np.bool_]) -> dict[str, Floats]:
        from sklearn.base import clone

        fresh = clone(model)
        quiet: dict[str, Any] = {"progress": False} if "progress" in inspect.signature(fresh.fit).parameters else {}
        if name in self.further:
            quiet["also"] = self.further[name]
        also, whole = self._also(model, ~test), are_whole(self.y)
        if self.distant is not None and self.distant.fits(fresh):
            fresh.fit(self.distant.bags[~test], self.y[~test], client=self.distant.client, **also, **quiet)
            of_all = self.told if self.trials is None else self.told | {"trials": self.trials}
            return self.distant.scores(fresh, test, self.y, of_all, whole)
        fresh.fit(self.bags[~test], self.y[~test], **also, **quiet)
        return scores_of(fresh, self.bags[test], self.y[test], self._also(model, test), whole)

    def _also(self, model: Any, chosen: NDArray[np.bool_]) -> dict[str, Floats]:
        also = {} if self.trials is None else {"trials": self.trials[chosen]}
        also |= {name: values[chosen] for name, values in self.told.items()}
        if self.offset is not None and self._takes_offset(model):
            also["offset"] = self.offset[chosen[self.bags.bag]]
        return also

    def _takes_offset(self, model: Any) -> bool:
        first = next(iter(self.models.values()))
        same_link = getattr(model, "link", None) == getattr(first, "link", None)
        return same_link and "offset" in inspect.signature(model.fit).parameters

    def _exposure(self) -> Floats:
        return self.bags.totals() * self.told.get("completeness", 1.0) if self.trials is None else self.trials

    def _likelihood(self) -> str:
        likelihood = getattr(next(iter(self.models.values())), "likelihood", None)
        return "" if likelihood is None else get_likelihood(likelihood).name


def _parts(one: Observations) -> tuple[Any, ...]:
    """All that tells observations from others."""
    bags = one.bags
    of_bags = (bags.labels, bags.bag, bags.X, bags.weight)
    values = (np.asarray(values) for values in (one.y, one.trials, one.offset, one.upper) if values is not None)
    return (*of_bags, *values, one.name, one.likelihood, one.link, one.slope)


@contextmanager
def _convergence_noted(place: str, notes: dict[str, None]) -> Iterator[None]:
    """Turn warnings about convergence into notes; those about data are noted already, others are issued again."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):
            notes[f"{place}: {warning.message}"] = None
        elif not issubclass(warning.category, DataWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _check(
    models: Any,
    baselines: Any,
    bags: Any,
    y: Any,
    folds: Any,
    trials: Any,
    offset: Any,
    client: Any = None,
    completeness: Any = None,
    weight_sd: Any = None,
    also: Mapping[str, Any] | None = None,
) -> Task:
    distant = marks = None
    if isinstance(bags, DistantBags):
        if client is None or offset is not None:
            raise ValueError(
                "Bags in files or in a data frame of Dask are validated by workers, without `offset`: give a `client`,"
                " or bags in this process."
            )
        distant = Distant(bags, client)
        bags, marks = distant.summaries()
    check_is_bags(bags)
    labels = bags.labels.tolist()
    if len(set(labels)) < len(labels):
        raise ValueError("`bags` must have distinct labels; a bag that is there twice would be fitted to and scored.")
    named = _named(models, baselines)
    further = _further(also or {}, named, distant)
    outputs = aligned_outputs(bags, y, trials)
    outputs.require(FEWEST)
    told = _told(named, aligned_told(bags, completeness, weight_sd, outputs.seen), outputs.seen)
    rows = None if offset is None else bags.align_rows(offset, "offset")
    bags, rows, of_bags = _observed(bags, rows, folds, outputs.seen)
    if distant is not None and marks is not None:
        distant, marks = replace(distant, bags=distant.bags[outputs.seen]), marks[outputs.seen]
    known = outputs.observed()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        for model in named.values():
            if hasattr(model, "likelihood"):
                given_outputs(bags, known.y, known.trials, get_likelihood(model.likelihood))
    notes = [*_missing_noted(outputs), *(str(warning.message) for warning in caught)]
    task = Task(named, bags, known.y, known.trials, rows, of_bags, (), distant, marks, told, further)
    if offset is not None:
        others = [name for name, model in named.items() if not task._takes_offset(model)]
        notes += [f"{name} has no offset: it takes none, or has another link." for name in others]
    return replace(task, notes=tuple(dict.fromkeys(notes)))


def _further(
    also: Mapping[str, Any], models: Mapping[str, Any], distant: Distant | None
) -> dict[str, tuple[Observations, ...]]:
    """What models learn from besides, which must be models that take it."""
    for name in also:
        if name not in models:
            raise ValueError(f"`also` must name models: {some_values(list(models))}; got {name!r}.")
        if "also" not in inspect.signature(models[name].fit).parameters:
            raise ValueError(f"`also` goes with models whose `fit` takes it; that of {name!r} does not.")
    if also and distant is not None:
        raise ValueError("`also` goes with bags in this process; leave it out, or give such bags.")
    return {name: check_also(given) for name, given in also.items()}


def _told(models: Mapping[str, Any], told: dict[str, Floats], seen: NDArray[np.bool_]) -> dict[str, Floats]:
    """Those of bags with an output; refused if a model cannot be told."""
    for name, model in models.items():
        for word in told:
            if word not in inspect.signature(model.fit).parameters:
                raise ValueError(
                    f"`{word}` must be taken by `fit` of every model; that of {name!r} does not. Leave the model out."
                )
    return {word: values[seen] for word, values in told.items()}


def _observed(
    bags: Bags, rows: Floats | None, folds: Any, seen: NDArray[np.bool_]
) -> tuple[Bags, Floats | None, NDArray[np.object_]]:
    """Bags with an output, the offset of their rows and their folds, which are drawn among them alone."""
    if seen.all():
        return bags, rows, as_folds(folds, bags)
    found = None if is_number(folds) or callable(folds) else as_folds(folds, bags, seen)
    chosen = bags[seen]
    return chosen, None if rows is None else rows[seen[bags.bag]], as_folds(folds, chosen) if found is None else found


def _missing_noted(outputs: GivenOutputs) -> list[str]:
    missing = outputs.labels[~outputs.seen]
    if not len(missing):
        return []
    return [f"{len(missing)} of {len(outputs.y)} bags have no output and are in no fold: {some_bags(missing)}."]


def _named(models: Any, baselines: Any) -> dict[str, Any]:
    named = dict(models) if isinstance(models, Mapping) else {type(models).__name__.lower(): models}
    if not named:
        raise ValueError("`models` must hold one model at least; got none.")
    for name, model in named.items():
        if not (hasattr(model, "fit") and hasattr(model, "get_params")):
            raise TypeError(f"`models` must hold models such as vbagg.VBAgg(); got {model!r} for {name!r}.")
    if isinstance(baselines, str) and baselines != "default":
        raise ValueError(f"`baselines` must be 'default', None or models by name; got {baselines!r}.")
    if isinstance(baselines, str):
        baselines = default_baselines(next(iter(named.values())))
    return named | {name: model for name, model in dict(baselines or {}).items() if name not in named}
