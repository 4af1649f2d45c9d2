import copy
import datetime
import decimal
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.utils import _safe_indexing, indexable, resample

import vbagg.bags
from vbagg.bags import Bags

LABELS = ["south", "north", "south", "east", "north", "south", "east"]
X = np.array([[0.5, 10], [1.5, -11], [2.5, 12], [3.5, 13], [4.5, -14], [5.5, 15], [6.5, 16]])
WEIGHT = np.array([1.0, 2.0, 0.0, 4.0, 8.0, 16.0, 32.0])


@pytest.fixture
def bags():
    return Bags(X, LABELS, WEIGHT)


def frame(**columns):
    return pd.DataFrame({"evi": X[:, 0], "slope": X[:, 1], **columns})


def contents(bags):
    """Label, rows and weights of each bag, read one row at a time."""
    found = [(label, [], []) for label in bags.labels]
    for row, position, weight in zip(bags.X, bags.bag, bags.weight, strict=True):
        found[position][1].append(tuple(row))
        found[position][2].append(weight)
    return found


def expected_contents(features, labels, weights):
    """Return the same as `contents`, from the rows as the user gave them."""
    order = list(dict.fromkeys(labels))
    rows = {label: [i for i, other in enumerate(labels) if other == label] for label in order}
    return [(label, [tuple(features[i]) for i in rows[label]], [weights[i] for i in rows[label]]) for label in order]


def test_rows_are_grouped_by_bag_in_order_of_first_appearance(bags):
    assert bags.labels.tolist() == ["south", "north", "east"]
    assert contents(bags) == expected_contents(X, LABELS, WEIGHT)
    assert bags.bag.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert bags.rows.tolist() == [0, 2, 5, 1, 4, 3, 6]
    assert bags.starts.tolist() == [0, 3, 5, 7]
    assert bags.sizes.tolist() == [3, 2, 2]
    assert (len(bags), bags.shape, bags.n_individuals, bags.n_features) == (3, (3,), 7, 2)
    assert (bags.feature_names, bags.named, bags.coordinates) == (("column 0", "column 1"), False, ())
    assert bags.X.dtype == bags.weight.dtype == np.float64


def test_weights_default_to_one():
    assert Bags(X, LABELS).weight.tolist() == [1.0] * 7


def test_one_dimension_is_one_feature():
    for values in (X[:, 0], X[:, 0].tolist(), pd.Series(X[:, 0]), np.ma.array(X[:, 0])):
        bags = Bags(values, LABELS)
        assert bags.X.shape == (7, 1)
        assert bags.X[:, 0].tolist() == [0.5, 2.5, 5.5, 1.5, 4.5, 3.5, 6.5]


def test_column_names_of_a_frame_are_kept_as_text():
    bags = Bags(frame().rename(columns={"slope": 7}), LABELS)
    assert (bags.feature_names, bags.named) == (("evi", "7"), True)
    np.testing.assert_array_equal(bags.X, X[bags.rows])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([("a", 1), ("b", 1), ("a", 1), ("b", 2)], [("a", 1), ("b", 1), ("b", 2)]),
        ([7, "7", 7, (7,)], [7, "7", (7,)]),
        (np.array([3, 1, 3, 2]), [3, 1, 2]),
        (np.array([2.5, 1.5, 2.5, 0.5]), [2.5, 1.5, 0.5]),
        (np.array(["b", "a", "b", "c"]), ["b", "a", "c"]),
        (np.array([b"b", b"a", b"b", b"c"]), [b"b", b"a", b"c"]),
        (np.array(["b", "a", "b", "c"], dtype=object), ["b", "a", "c"]),
        (pd.Series(["b", "a", "b", "c"]), ["b", "a", "c"]),
        (pd.Series(["b", "a", "b", "c"], dtype="category"), ["b", "a", "c"]),
        (pd.array([3, 1, 3, 2], dtype="Int64"), [3, 1, 2]),
        (pd.Index([3, 1, 3, 2]), [3, 1, 2]),
        (pd.MultiIndex.from_tuples([("b", 1), ("a", 1), ("b", 1), ("a", 2)]), [("b", 1), ("a", 1), ("a", 2)]),
        (
            np.array(["2021", "2020", "2021", "2019"], "M8[ns]"),
            list(map(pd.Timestamp, ["2021", "2020", "2019"])),
        ),
        (list(np.array([3, 1, 3, 2])), [3, 1, 2]),
        (np.ma.array([3, 1, 3, 2]), [3, 1, 2]),
        (range(4), [0, 1, 2, 3]),
    ],
)
def test_labels_of_any_kind(labels, expected):
    bags = Bags(X[:4], labels)
    assert bags.labels.tolist() == expected
    assert not any(isinstance(label, np.generic) for label in bags.labels)
    if len(expected) == 3:
        assert bags.X[:2, 0].tolist() == [0.5, 2.5]


def test_features_of_any_numeric_kind():
    mixed = frame(
        urban=[True, False] * 3 + [True],
        cases=pd.array([1, 2, 3, 4, 5, 6, 7], dtype="Int64"),
        price=[decimal.Decimal("1.5"), 2, 3.0, np.float32(4), np.True_, 6, 7],
        small=np.arange(7, dtype=np.int8),
    )
    expected = np.column_stack([X, [1, 0, 1, 0, 1, 0, 1], [1, 2, 3, 4, 5, 6, 7], [1.5, 2, 3, 4, 1, 6, 7], np.arange(7)])
    for features in (mixed, mixed.to_numpy(dtype=object)):
        bags = Bags(features, LABELS)
        np.testing.assert_array_equal(bags.X, expected[bags.rows])


def test_the_module_does_not_import_pandas():
    code = f"""
import runpy, sys
runpy.run_path({vbagg.bags.__file__!r})
print({{"pandas", "sklearn", "matplotlib"}} & set(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_later_changes_of_the_given_arrays_are_not_seen():
    features, weights, labels = X.copy(), WEIGHT.copy(), np.array(LABELS, dtype=object)
    order = np.argsort(labels, kind="stable")  # sorted input could tempt to keep a view
    features, weights, labels = features[order], weights[order], labels[order]
    bags = Bags(features, labels, weights)
    features[:], weights[:], labels[:] = -1, -1, "gone"
    assert bags.X.min() == -14
    assert bags.weight.min() == 0
    assert "gone" not in bags.labels
    features[0] = 5  # and the user's arrays stay writeable


@pytest.mark.parametrize(
    "make",
    [
        lambda bags: bags,
        lambda bags: bags[1:],
        lambda bags: bags[[2, 0]],
        lambda bags: bags.drop_zero_weight(),
        lambda bags: pickle.loads(pickle.dumps(bags)),
        copy.deepcopy,
        copy.copy,
    ],
)
def test_nothing_can_be_changed(bags, make):
    made = make(bags)
    for name in ("X", "weight", "bag", "labels", "rows", "starts"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(made, name)[0] = 0
    with pytest.raises(AttributeError, match="immutable"):
        made.weight = np.ones(7)


def test_a_pickle_holds_everything(bags):
    again = pickle.loads(pickle.dumps(bags))
    assert contents(again) == contents(bags)
    assert (again.rows == bags.rows).all()
    assert again.feature_names == bags.feature_names


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["evi", "y", "x"], (2, 1)),
        (["Lon", "evi", "LAT"], (0, 2)),
        (["lat", "long", "evi"], (1, 0)),
        (["LATITUDE", "evi", "Longitude"], (2, 0)),
        (["easting", "northing", "evi"], (0, 1)),
        (["easting", "y", "lat"], ()),
        (["longitude", "lat", "evi"], ()),
        (["lon", "lat", "x", "y"], (2, 3)),
        (["evi", "slope", "rain"], ()),
    ],
)
def test_coordinates_are_recognised_by_name(columns, expected):
    table = pd.DataFrame(np.arange(2.0 * len(columns)).reshape(2, -1), columns=columns)
    assert Bags(table, ["a", "b"]).coordinates == expected


def test_coordinates_are_given_by_name_or_number():
    table = frame(x=1.0, y=2.0)
    assert Bags(table, LABELS, coordinates=("slope", "evi")).coordinates == (1, 0)
    assert Bags(table, LABELS, coordinates=[3, "evi"]).coordinates == (3, 0)
    assert Bags(table, LABELS, coordinates=()).coordinates == ()
    assert Bags(X, LABELS, coordinates=(np.int64(1), 0)).coordinates == (1, 0)
    assert Bags(table, LABELS)[[2, 1]].coordinates == (2, 3)


@pytest.mark.parametrize(
    ("coordinates", "error", "message"),
    [
        ("xy", TypeError, "tuple of column names"),
        (1, TypeError, "tuple of column names"),
        ((True, False), TypeError, "names or numbers"),
        (("evi", "nope"), ValueError, "'nope'.*columns are 'evi', 'slope'"),
        ((0, 2), ValueError, r"got \(0, 2\)"),
        ((0, -1), ValueError, r"got \(0, -1\)"),
        ((0, "evi"), ValueError, "distinct"),
    ],
)
def test_wrong_coordinates_are_refused(coordinates, error, message):
    with pytest.raises(error, match=message):
        Bags(frame(), LABELS, coordinates=coordinates)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (1, [1]),
        (-1, [2]),
        (np.int64(0), [0]),
        ((2, ...), [2]),
        (([2, 0], ...), [2, 0]),
        ((np.array([True, False, True]), ...), [0, 2]),
        ([2, 1, 0], [2, 1, 0]),
        ([1, 2], [1, 2]),
        ([-1, 0], [2, 0]),
        ([1, 1, 0, 1], [1, 1, 0, 1]),
        ([True, False, True], [0, 2]),
        (np.array([False, True, True]), [1, 2]),
        (pd.Series([True, False, True]), [0, 2]),
        (slice(1, None), [1, 2]),
        (slice(None, None, -1), [2, 1, 0]),
        (slice(0, 3, 2), [0, 2]),
        (..., [0, 1, 2]),
        ([], []),
        (slice(3, 3), []),
    ],
)
def test_selection_keeps_everything_aligned(bags, key, expected):
    taken = bags[key]
    whole = expected_contents(X, LABELS, WEIGHT)
    assert isinstance(taken, Bags)
    assert contents(taken) == [whole[a] for a in expected]
    assert taken.rows.tolist() == list(range(taken.n_individuals))
    assert taken.sizes.tolist() == [len(whole[a][1]) for a in expected]
    assert taken.totals().tolist() == [sum(whole[a][2]) for a in expected]
    assert taken.feature_names == bags.feature_names


@pytest.mark.parametrize("key", [3, -4, [0, 3], [True, False], (0, 1), None, True, 1.0, "south", [[0, 1]]])
def test_wrong_keys_are_index_errors(bags, key):
    with pytest.raises(IndexError, match="bags are selected"):
        bags[key]


def test_iteration_gives_single_bags_and_ends(bags):
    assert [bag.labels.tolist() for bag in bags] == [["south"], ["north"], ["east"]]
    assert [bag.n_individuals for bag in bags[[2, 0]]] == [2, 3]


def test_neighbouring_bags_are_views_and_others_are_not(bags):
    assert np.shares_memory(bags[1:].X, bags.X)
    assert np.shares_memory(bags[[0, 1]].weight, bags.weight)
    assert not np.shares_memory(bags[[2, 1]].X, bags.X)
    assert np.shares_memory(bags[1:].drop_zero_weight().X, bags.X)


def test_bags_are_not_an_array(bags):
    with pytest.raises(TypeError, match="not an array"):
        np.asarray(bags)


def test_repr_is_one_informative_line(bags):
    assert repr(bags) == ("<Bags: 3 bags, 7 individuals, 2 features: 'column 0', 'column 1'; coordinates: none>")
    wide = Bags(pd.DataFrame(np.ones((2, 7)), columns=list("abyxefg")), [0, 0])
    assert "'a', 'b', 'y', 'x', 'e' and 2 more; coordinates: 'x', 'y'" in repr(wide)
    assert "0 bags" in repr(bags[[]])


def test_scikit_learn_indexes_bags_as_samples(bags):
    whole = contents(bags)
    for key in ([2, 0], np.array([1]), np.array([True, False, True]), slice(0, 2), (0, 1)):
        taken = _safe_indexing(bags, key)
        positions = np.arange(3)[list(key) if isinstance(key, tuple) else key]
        assert contents(taken) == [whole[a] for a in positions]
    assert _safe_indexing(bags, 1).labels.tolist() == ["north"]
    assert indexable(bags, [1, 2, 3])[0] is bags
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        indexable(bags, [1] * 7)


def test_scikit_learn_splits_bags(bags):
    by_label = {"south": 5.0, "north": 6.0, "east": 7.0}
    y = np.array([by_label[label] for label in bags.labels])
    folds = list(KFold(3).split(bags))
    assert [test.tolist() for _, test in folds] == [[0], [1], [2]]
    train, test, y_train, y_test = train_test_split(bags, y, test_size=1, random_state=3)
    drawn, y_drawn = resample(bags, y, n_samples=8, random_state=0)
    for part, outputs in ((train, y_train), (test, y_test), (drawn, y_drawn)):
        assert isinstance(part, Bags)
        assert [by_label[label] for label in part.labels] == outputs.tolist()
        assert all(entry in contents(bags) for entry in contents(part))
    assert len(drawn) == 8


class MeanRate(BaseEstimator):
    def fit(self, bags, y):
        self.rate_ = bags.align(y).sum() / bags.totals().sum()
        return self

    def score(self, bags, y):
        return -np.abs(bags.align(y) - self.rate_ * bags.totals()).sum()


def test_cross_validation_with_outputs_by_label(bags):
    y = pd.Series({"south": 34.0, "north": 5.0, "east": 36.0})
    totals = {"south": 17.0, "north": 10.0, "east": 36.0}
    expected = []
    for held_out in bags.labels:
        rest = [label for label in totals if label != held_out]
        rate = sum(y[label] for label in rest) / sum(totals[label] for label in rest)
        expected.append(-abs(y[held_out] - rate * totals[held_out]))
    np.testing.assert_allclose(cross_val_score(MeanRate(), bags, y, cv=KFold(3)), expected)


def test_outputs_follow_the_labels(bags):
    expected = [5.0, 6.0, 7.0]
    by_label = pd.Series({"east": 7, "south": 5, "north": 6})
    for y in (
        by_label,
        by_label.astype("Int64"),
        by_label.astype(object),
        [5, 6, 7],
        np.array([5, 6, 7], dtype=np.uint8),
        np.ma.array([5, 6, 7]),
    ):
        aligned = bags.align(y)
        assert aligned.tolist() == expected
        assert aligned.dtype == np.float64


def test_aligned_outputs_are_a_copy(bags):
    y = np.array([5.0, 6.0, 7.0])
    bags.align(y)[0] = -1
    assert y[0] == 5


def test_a_default_index_is_matched_by_label_or_refused(bags):
    """Numbers by position would be silently wrong where a table was sorted otherwise than the bags."""
    y = pd.Series([5.0, 6.0, 7.0])
    assert Bags(X[:3], [2, 0, 1]).align(y).tolist() == [7.0, 5.0, 6.0]
    for labels in (["2", "0", "1"], [1, 2, 3], [2.0, 10.0, 11.0], ["south", "north", "east"]):
        with pytest.raises(ValueError, match=r"lacks bag.*unknown bag.*to_numpy\(\)` in the order of `bags.labels`"):
            Bags(X[:3], labels).align(y)


def test_integer_index_other_than_the_default_is_by_label(bags):
    for index in ([0, 1, 2], range(1, 4), range(2, -1, -1)):
        y = pd.Series([5.0, 6.0, 7.0], index=pd.Index(index))
        if index == [0, 1, 2]:
            assert not isinstance(y.index, pd.RangeIndex)
        with pytest.raises(ValueError, match=r"lacks bags 'south'.*unknown bags .*to_numpy"):
            bags.align(y)


def test_outputs_by_tuple_and_by_date():
    y = pd.Series([5.0, 6.0], index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    assert Bags(X[:2], [("b", 2), ("a", 1)]).align(y).tolist() == [6.0, 5.0]
    dates = pd.Series([5.0, 6.0], index=pd.to_datetime(["2020-01-01", "2021-01-01"]))
    assert Bags(X[:2], dates.index[::-1].to_numpy()).align(dates).tolist() == [6.0, 5.0]


def test_repeated_bags_share_the_output_of_their_label(bags):
    y = pd.Series({"east": 7.0, "south": 5.0, "north": 6.0})
    drawn = bags[[2, 0, 2, 1]]
    assert drawn.align(y).tolist() == [7.0, 5.0, 7.0, 6.0]
    assert drawn.align(y.loc[drawn.labels]).tolist() == [7.0, 5.0, 7.0, 6.0]


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([5, 6], ValueError, r"`cases` .*one number per bag, 3 in all; got 2\."),
        ([[5], [6], [7]], ValueError, r"got shape \(3, 1\)"),
        (pd.DataFrame({"y": [5, 6, 7]}), ValueError, r"got shape \(3, 1\)"),
        ([[5], [6, 7]], ValueError, "rectangular"),
        (5.0, ValueError, r"got 5\.0"),
        ([5, np.nan, np.inf], ValueError, "finite; got nan for bags 'north', 'east'"),
        ([5, 6, -np.inf], ValueError, r"got -inf for bag 'east'\. "),
        ([None, 6, 7], ValueError, "nan for bag 'south'"),
        (np.ma.array([5, 6, 7], mask=[0, 1, 0]), ValueError, "nan for bag 'north'"),
        (
            pd.Series([5, 6, None], ["east", "north", "south"], dtype="Int64"),
            ValueError,
            "nan for bag 'south'",
        ),
        (["5", 6, 7], TypeError, "got '5' at bag 'south'"),
        ([5, 6j, 7], TypeError, "must hold numbers"),
        (pd.Series([5, 6, 7, 8], ["east", "north", "south", "east"]), ValueError, "several for bag 'east'"),
        (pd.Series([5, 6], ["east", "north"]), ValueError, r"it lacks bag 'south'\. "),
        (
            pd.Series([5, 6, 7, 8], ["east", "north", "south", "west"]),
            ValueError,
            r"bags; it holds the unknown bag 'west'",
        ),
    ],
)
def test_wrong_outputs_are_refused(bags, y, error, message):
    with pytest.raises(error, match=message):
        bags.align(y, name="cases")


def test_messages_list_five_labels():
    bags = Bags(np.arange(8.0), [f"D{k}" for k in range(8)])
    with pytest.raises(ValueError, match=r"for bags 'D0', 'D1', 'D2', 'D3', 'D4' and 3 more\."):
        bags.align([np.nan] * 8)
    with pytest.raises(ValueError, match=r"lacks bags 'D1', 'D2', 'D3', 'D4', 'D5' and 2 more\."):
        bags.align(pd.Series({"D0": 1.0}))


def test_row_values_follow_the_rows(bags):
    offset = 100 + X[:, 0]
    for values in (offset, offset.tolist(), pd.Series(offset), np.ma.array(offset)):
        np.testing.assert_array_equal(bags.align_rows(values), 100 + bags.X[:, 0])
    taken = bags[[2, 0]]
    np.testing.assert_array_equal(taken.align_rows(100 + taken.X[:, 0]), 100 + taken.X[:, 0])


@pytest.mark.parametrize("weight", [WEIGHT, None])
def test_row_values_of_reduced_bags_follow_their_own_rows(weight):
    """Whether any row was dropped must not change the meaning of `align_rows`."""
    reduced = Bags(X, LABELS, weight).drop_zero_weight()
    values = np.arange(float(reduced.n_individuals))
    np.testing.assert_array_equal(reduced.align_rows(values), values)


def test_wrong_row_values_are_refused(bags):
    with pytest.raises(ValueError, match=r"`offset` must hold one number per row, 7 in all; got 3\."):
        bags.align_rows([1, 2, 3], "offset")
    with pytest.raises(ValueError, match=r"`offset` must be finite; got inf at row 4 \(bag 'north'\)\. "):
        bags.align_rows([1, 2, 3, 4, np.inf, 6, 7], "offset")
    with pytest.raises(TypeError, match=r"`offset` .* 'four' at row 3 \(bag 'east'\)"):
        bags.align_rows(np.array([1, 2, 3, "four", 5, 6, 7], dtype=object), "offset")


def test_sums_by_bag(bags):
    assert bags.totals().tolist() == [17.0, 10.0, 36.0]
    assert bags.weight_squares().tolist() == [257.0, 68.0, 1040.0]
    assert bags.sum_by_bag(bags.X).tolist() == [[8.5, 37.0], [6.0, -25.0], [10.0, 29.0]]
    assert bags.sum_by_bag(bags.weight > 1).tolist() == [1.0, 2.0, 2.0]
    large = np.array([2**24, 1, 1, 2**24, 1, 1, 1], dtype=np.float32)
    assert bags.sum_by_bag(large).tolist() == [2**24 + 2, 2**24 + 1, 2]
    assert bags[[]].totals().shape == (0,)
    with pytest.raises(ValueError, match=r"7 in all; got 3\."):
        bags.sum_by_bag([1, 2, 3])


def test_rows_of_zero_weight_are_dropped(bags):
    reduced = bags.drop_zero_weight()
    keep = WEIGHT > 0
    labels = [label for label, kept in zip(LABELS, keep, strict=True) if kept]
    assert contents(reduced) == expected_contents(X[keep], labels, WEIGHT[keep])
    assert reduced.sizes.tolist() == [2, 2, 2]
    assert contents(bags[[1, 2]].drop_zero_weight()) == contents(bags[[1, 2]])


def changed(values, position, value):
    values = np.array(values, dtype=object if isinstance(value, (str, type(None))) else float)
    values[position] = value
    return values


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (changed(X, (4, 1), np.nan), ValueError, r"got nan at column 1, row 4 \(bag 'north'\)\. Drop"),
        (
            changed(X, ([3, 4], [0, 1]), np.inf),
            ValueError,
            r"inf at column 0, row 3 \(bag 'east'\), the first of 2",
        ),
        (frame(rain=changed(WEIGHT, 6, -np.inf)), ValueError, r"-inf at column 'rain', row 6 \(bag 'east'\)"),
        (
            frame(rain=pd.array([1, 2, 3, None, 5, 6, 7])),
            ValueError,
            r"nan at column 'rain', row 3 \(bag 'east'\)",
        ),
        (np.ma.masked_equal(X, -11), ValueError, r"nan at column 1, row 1 \(bag 'north'\)"),
        (np.ma.masked_equal(X[:, 1], -11), ValueError, r"nan at column 0, row 1 \(bag 'north'\)"),
        (
            frame(code=list("7654321")),
            TypeError,
            r"column 'code'.* must hold numbers; got '7' at row 0 \(bag 'south'\)",
        ),
        (frame(code=[1, 2, 3, None, "x", 6, 7]), TypeError, r"got 'x' at row 4 \(bag 'north'\)"),
        (frame(day=pd.to_datetime(["2020-01-01"] * 7)), TypeError, "column 'day'.*2020"),
        (frame(day=[datetime.date(2020, 1, 1)] * 7), TypeError, "column 'day'"),
        (frame(land=pd.Categorical(list("abcabca"))), TypeError, "column 'land'.*categories"),
        (changed(X, (2, 1), "x"), TypeError, r"column 1\).*'x' at row 2 \(bag 'south'\)"),
        (X.astype(str), TypeError, r"got '0\.5' at row 0"),
        (X + 1j, TypeError, "must hold numbers"),
        (X[None], ValueError, r"table .*got shape \(1, 7, 2\)"),
        ("table.csv", ValueError, "table .*got 'table.csv'"),
        ([[1, 2], [3]], ValueError, "`X` must be a rectangular"),
        (np.empty((0, 2)), ValueError, r"at least one row and one column; got shape \(0, 2\)"),
        (np.empty((7, 0)), ValueError, r"got shape \(7, 0\)"),
        (frame().iloc[:0], ValueError, "at least one row"),
        ([], ValueError, "at least one row"),
        (frame().set_axis(["evi", "evi"], axis=1), ValueError, "distinct column names; got 'evi'"),
    ],
)
def test_wrong_features_are_refused(features, error, message):
    with pytest.raises(error, match=message):
        Bags(features, LABELS)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (LABELS[:5], ValueError, r"`bag` must hold one label per row of `X`, 7 in all; got 5\."),
        ("district", ValueError, "got 'district'"),
        (np.array([LABELS]), ValueError, r"got shape \(1, 7\)"),
        (pd.DataFrame({"bag": LABELS}), ValueError, r"got shape \(7, 1\)"),
        ([*LABELS[:5], None, "a"], ValueError, r"label every row; got None at row 5\. Drop"),
        (
            ["a", float("nan"), "b", np.nan, "c", "d", "e"],
            ValueError,
            "got nan at row 1, the first of 2 such values",
        ),
        (np.array([1, 2, np.nan, 4, 5, 6, 7]), ValueError, "got nan at row 2"),
        (pd.Series([*LABELS[:6], None]), ValueError, "at row 6"),
        (pd.Series([*LABELS[:6], None], dtype="category"), ValueError, "at row 6"),
        (pd.array([1, None, 3, 4, 5, 6, 7], dtype="Int64"), ValueError, "at row 1"),
        (np.array(["NaT"] + ["2020"] * 6, dtype="M8[D]"), ValueError, "at row 0"),
        (np.ma.array(range(7), mask=[0, 0, 0, 1, 0, 0, 0]), ValueError, "at row 3"),
        ([[1]] * 7, TypeError, "hashable"),
        (iter(LABELS), ValueError, "got <list_iterator"),
    ],
)
def test_wrong_labels_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        Bags(X, labels)


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (
            changed(WEIGHT, 4, -0.3),
            ValueError,
            r"non-negative; got -0\.3 at row 4 \(bag 'north'\)\. Drop nodata",
        ),
        (
            changed(WEIGHT, [3, 4], -9999.0),
            ValueError,
            r"-9999\.0 at row 3 \(bag 'east'\), the first of 2 such values",
        ),
        (changed(WEIGHT, 6, np.nan), ValueError, r"`weight` must be finite; got nan at row 6 \(bag 'east'\)"),
        (changed(WEIGHT, 1, np.inf), ValueError, r"got inf at row 1 \(bag 'north'\)"),
        (np.ma.masked_equal(WEIGHT, 8), ValueError, "got nan at row 4"),
        (
            changed(WEIGHT, 5, "many"),
            TypeError,
            r"`weight` must hold numbers; got 'many' at row 5 \(bag 'south'\)",
        ),
        (WEIGHT[:6], ValueError, "one number per row of `X`, 7 in all; got 6"),
        (2.0, ValueError, r"got 2\.0"),
        ("population", ValueError, "got 'population'"),
        (changed(WEIGHT, [1, 4], 0.0), ValueError, r"all weights are 0 in bag 'north'\. Leave"),
        (np.zeros(7), ValueError, "0 in bags 'south', 'north', 'east'"),
    ],
)
def test_wrong_weights_are_refused(weight, error, message):
    with pytest.raises(error, match=message):
        Bags(X, LABELS, weight)


def test_pandas_rows_in_another_order_are_refused():
    table = frame().set_axis(list("abcdefg"))
    labels = pd.Series(LABELS, index=table.index)
    weight = pd.Series(WEIGHT, index=table.index)
    assert contents(Bags(table, labels, weight)) == contents(Bags(X, LABELS, WEIGHT))
    with pytest.raises(ValueError, match=r"`bag` must have its rows in the order of `X`.*bag\.loc\[X\.index\]"):
        Bags(table, labels[::-1], weight)
    with pytest.raises(ValueError, match="`weight` must have its rows in the order"):
        Bags(table, labels, weight.sample(frac=1, random_state=0))
    renumbered = labels.reset_index(drop=True)
    assert contents(Bags(table, renumbered, weight)) == contents(Bags(X, LABELS, WEIGHT))


label_values = st.one_of(
    st.integers(-3, 3), st.text("ab", max_size=2), st.tuples(st.integers(0, 1), st.text("a", max_size=1))
)
row_values = st.tuples(label_values, st.floats(-1e6, 1e6), st.floats(0.25, 64))


@settings(deadline=None, max_examples=150)
@given(rows=st.lists(row_values, min_size=1, max_size=25), data=st.data())
def test_grouping_selection_and_sums_agree_with_loops(rows, data):
    labels, values, weights = map(list, zip(*rows, strict=True))
    features = np.column_stack([values, np.arange(len(rows))])
    bags = Bags(features, labels, weights)
    whole = expected_contents(features, labels, weights)
    assert contents(bags) == whole
    np.testing.assert_array_equal(features[bags.rows], bags.X)
    np.testing.assert_array_equal(bags.align_rows(features[:, 1]), bags.X[:, 1])

    picks = data.draw(st.lists(st.integers(-len(bags), len(bags) - 1), max_size=8))
    taken = bags[picks]
    assert contents(taken) == [whole[a] for a in picks]
    np.testing.assert_allclose(taken.totals(), [sum(whole[a][2]) for a in picks])
    np.testing.assert_allclose(taken.weight_squares(), [sum(w**2 for w in whole[a][2]) for a in picks])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=12), st.randoms())
def test_outputs_by_label_do_not_depend_on_their_order(labels, random):
    bags = Bags(np.arange(float(len(labels))), labels)
    y = {label: float(position) for position, label in enumerate(bags.labels)}
    shuffled = random.sample(sorted(y), len(y))
    aligned = bags.align(pd.Series({label: y[label] for label in shuffled}))
    assert aligned.tolist() == list(range(len(bags)))
