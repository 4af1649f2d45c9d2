"""Outputs besides those in folds: only the models that are named learn from them."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.validate import cross_validate

DATA = vbagg.datasets.swiss_roll(n_bags=24, mean_size=8, std_size=3, rate_scale=0.3, seed=3)


def model():
    return vbagg.VBAgg("poisson", "exp", landmarks=8, hyper="point", inference=vbagg.Newton(max_iterations=3, starts=1))


def surveys(positive=(3.0, 17.0, 8.0, 12.0, 1.0)):
    rows = np.array([4, 31, 77, 102, 150])
    X = pd.DataFrame(DATA.bags.X[rows], columns=DATA.bags.feature_names)
    bags = vbagg.Bags(X, [f"s{at}" for at in rows], coordinates=[])
    return vbagg.Observations(bags, np.array(positive), "binomial", trials=np.full(5, 20.0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::vbagg.errors.ConvergenceWarning")
def test_only_the_named_model_learns_from_them(tmp_path):
    models = {"with": model(), "without": model()}
    options = {"folds": 2, "baselines": None, "progress": False, "keep": tmp_path}
    found = cross_validate(models, DATA.bags, DATA.y, also={"with": surveys()}, **options)
    assert list(found.failures) == []
    own, other = (found.table[found.table["model"] == name].set_index("bag") for name in models)
    plain = cross_validate({"without": model()}, DATA.bags, DATA.y, folds=2, baselines=None, progress=False)
    np.testing.assert_allclose(other["crps"], plain.table.set_index("bag")["crps"])
    assert not np.allclose(own["crps"], other["crps"])
    bags, y, own = DATA.bags, np.asarray(DATA.y), own.loc[list(DATA.bags.labels)]
    first = (own["fold"] == 1).to_numpy()
    by_hand = model().fit(bags[~first], y[~first], also=surveys())
    np.testing.assert_allclose(by_hand.predictive_bags(bags[first]).quantile(0.5), own["median"][first])


def test_results_of_other_surveys_are_not_taken(tmp_path):
    told = []
    options = {"folds": 2, "baselines": None, "keep": tmp_path, "progress": told.append}

    def kept(also):
        told.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vbagg.validate.run.Task.run", lambda task, fold, *rest: stub(task, fold))
            cross_validate({"a": model()}, DATA.bags, DATA.y, also=also, **options)
        return [entry.get("kept", False) for entry in told if "finished" in entry]

    def stub(task, fold):
        from vbagg.validate import FoldResult

        return FoldResult(fold, ("a",), "poisson", 12, pd.DataFrame(), (), (), {"a": 1.0})

    assert kept({"a": surveys()}) == [False, False]
    assert kept({"a": surveys()}) == [True, True]
    assert kept({"a": surveys((4.0, 17.0, 8.0, 12.0, 1.0))}) == [False, False]
    assert kept(None) == [False, False]


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"`also` must name models: .*; got 'other'"):
        cross_validate({"vbagg": model()}, DATA.bags, DATA.y, also={"other": surveys()})
    with pytest.raises(ValueError, match="`also` goes with models whose `fit` takes it; that of 'constant' does not"):
        cross_validate({"vbagg": model()}, DATA.bags, DATA.y, also={"constant": surveys()})
