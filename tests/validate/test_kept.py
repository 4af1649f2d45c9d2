"""A cross-validation that was interrupted goes on where it was, and takes nothing that rests on anything else."""

import numpy as np
import pandas as pd
import pytest

from vbagg import Bags, Constant
from vbagg.validate import cross_validate, random_folds


@pytest.fixture
def bags(rng):
    bag = np.repeat([f"b{k}" for k in range(9)], np.arange(2, 11))
    return Bags(rng.normal(size=(len(bag), 2)), bag, rng.uniform(1, 5, len(bag)))


@pytest.fixture
def y(rng):
    return rng.poisson(np.linspace(4, 30, 9)).astype(float)


class Stopped(BaseException):
    pass


def validated(bags, y, keep, stop_after=None, models=None, folds=None, **more):
    """The validation and what it did; stopped like a process that is killed."""
    done = []

    def progress(entry):
        if "finished" in entry:
            done.append(("kept" if "kept" in entry else "made", entry["finished"]))
            if stop_after == len(done):
                raise Stopped

    models = {"constant": Constant("poisson")} if models is None else models
    folds = random_folds(bags, 3, 5) if folds is None else folds
    try:
        return cross_validate(models, bags, y, folds, progress=progress, baselines=None, keep=keep, **more), done
    except Stopped:
        return None, done


def test_finished_folds_are_not_made_again(bags, y, tmp_path):
    whole, made = validated(bags, y, None)
    assert [how for how, _ in made] == ["made"] * 3
    validated(bags, y, tmp_path, stop_after=2)
    resumed, done = validated(bags, y, tmp_path)
    assert done == [("kept", made[0][1]), ("kept", made[1][1]), ("made", made[2][1])]
    pd.testing.assert_frame_equal(resumed.table, whole.table, check_exact=True, check_dtype=False)
    assert resumed.summary() == whole.summary()


@pytest.mark.parametrize("change", ["y", "weight", "features", "folds", "model", "name", "labels"])
def test_folds_of_other_models_or_data_are_not_taken(bags, y, tmp_path, change):
    validated(bags, y, tmp_path)
    folds, models, weight, X, labels = random_folds(bags, 3, 5), None, bags.weight, bags.X, bags.labels[bags.bag]
    if change == "y":
        y = y + np.arange(9.0)
    if change == "weight":
        weight = 1.25 * weight
    if change == "features":
        X = X + 1e-9
    if change == "folds":
        folds = random_folds(bags, 3, 6)
    if change == "labels":
        labels, folds = [f"c{label}" for label in labels], np.asarray(folds)
    if change == "model":
        models = {"constant": Constant("negative_binomial")}
    if change == "name":
        models = {"other": Constant("poisson")}
    _, done = validated(Bags(X, labels, weight), y, tmp_path, models=models, folds=np.asarray(folds))
    assert [how for how, _ in done] == ["made"] * 3


@pytest.mark.parametrize(("change", "how"), [(None, "kept"), ("trials", "made"), ("offset", "made")])
def test_folds_with_other_trials_or_offsets_are_not_taken(bags, y, tmp_path, change, how):
    model = {"constant": Constant("binomial")}
    given = {"trials": y + 9, "offset": np.linspace(-1, 1, bags.n_individuals)}
    validated(bags, y, tmp_path, models=model, **given)
    changed = {} if change is None else {change: given[change] + 1}
    _, done = validated(bags, y, tmp_path, models=model, **given | changed)
    assert [what for what, _ in done] == [how] * 3


@pytest.mark.parametrize("damage", ["truncated", "swapped", "changed", "emptied", "foreign"])
def test_damaged_folds_are_not_taken(bags, y, tmp_path, damage):
    whole, _ = validated(bags, y, tmp_path)
    first, second, _ = sorted(tmp_path.iterdir())
    text = first.read_text()
    first.write_text(
        {
            "truncated": text[: len(text) // 2],
            "swapped": second.read_text(),
            "changed": text.replace("0.", "1.", 1),
            "emptied": "",
            "foreign": '{"name": 1}',
        }[damage]
    )
    again, done = validated(bags, y, tmp_path)
    assert sorted(how for how, _ in done) == ["kept", "kept", "made"]
    pd.testing.assert_frame_equal(again.table, whole.table, check_exact=True, check_dtype=False)


def test_a_fold_with_a_fit_that_failed_is_made_again(bags, y, tmp_path):
    class Unlucky(Constant):
        def fit(self, *arguments, **more):
            raise MemoryError("no memory")

    validation, _ = validated(bags, y, tmp_path, models={"constant": Unlucky("poisson")})
    assert len(validation.failures) == 3
    assert list(tmp_path.glob("*")) == []
