"""Bags in Parquet files."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg.bags import Bags
from vbagg.portions import StoredPortion

pytest.importorskip("pyarrow")


@pytest.fixture
def frame(rng):
    sizes = [7, 1, 12, 5, 9, 3]
    n = sum(sizes)
    return pd.DataFrame(
        {
            "area": np.repeat(["c", "a", "f", "b", "e", "d"], sizes),
            "rain": rng.normal(size=n),
            "height": rng.gamma(2.0, 1.0, n),
            "people": rng.integers(1, 9, n).astype(float) * (np.arange(n) % 4 > 0),
            "note": "text",
        }
    ).assign(people=lambda f: f["people"].where(f["area"] != "e", 0.0))


def stored(path):
    return Bags.from_parquet(path, features=["height", "rain"], bag="area", weight="people")


def read(rows):
    ((bags, _),) = StoredPortion((rows,)).blocks()
    return bags


def expected(frame):
    kept = frame[frame["area"] != "e"]
    return Bags(kept[["height", "rain"]], kept["area"], kept["people"])


@pytest.mark.parametrize("group", [1, 4, 100])
def test_portions_are_the_bags_of_the_table(frame, tmp_path, group):
    frame.loc[frame["area"] == "a", "people"] = 3.0
    path = tmp_path / "pixels.parquet"
    frame.to_parquet(path, index=False, row_group_size=group)
    bags, whole = stored(path), expected(frame).drop_zero_weight()
    assert bags.labels.tolist() == whole.labels.tolist() == ["c", "a", "f", "b", "d"]
    np.testing.assert_array_equal(bags.sizes, whole.sizes)
    assert len(bags) == 5
    for first, last in ((0, 5), (0, 2), (2, 3), (3, 5)):
        found = read(bags.rows(first, last))
        np.testing.assert_array_equal(found.X, whole[first:last].X)
        np.testing.assert_array_equal(found.weight, whole[first:last].weight)
        assert found.labels.tolist() == whole.labels[first:last].tolist()
        assert found.feature_names == ("height", "rain")


def test_some_of_the_bags(frame, tmp_path):
    frame.to_parquet(tmp_path / "pixels.parquet", index=False, row_group_size=4)
    bags, whole = stored(tmp_path / "pixels.parquet"), expected(frame).drop_zero_weight()
    chosen = np.array([True, False, True, False, True])[: len(bags)]
    some = bags[chosen]
    assert some.labels.tolist() == whole.labels[chosen].tolist()
    np.testing.assert_array_equal(some.sizes, whole.sizes[chosen])
    np.testing.assert_array_equal(read(some.rows()).X, whole[chosen].X)
    np.testing.assert_array_equal(read(some.rows(1, 2)).X, whole[chosen][1:2].X)
    assert len(bags) == len(whole)


def test_a_folder_of_files_is_read_in_the_order_of_their_names(frame, tmp_path):
    frame.loc[frame["area"] == "a", "people"] = 3.0
    for number, labels in enumerate((["c", "a"], ["f"], ["b", "e", "d"])):
        frame[frame["area"].isin(labels)].to_parquet(tmp_path / f"part-{number}.parquet", index=False)
    bags = stored(tmp_path)
    ((found, offset),) = StoredPortion((bags.rows(),)).blocks()
    whole = expected(frame).drop_zero_weight()
    assert bags.labels.tolist() == whole.labels.tolist() == ["c", "a", "f", "b", "d"]
    np.testing.assert_array_equal(found.X, whole.X)
    assert offset.tolist() == [0.0] * found.n_individuals


def test_a_fit_without_workers_reads_them(frame, tmp_path, rng):
    frame = frame[frame["people"] > 0]
    frame.to_parquet(tmp_path / "pixels.parquet", index=False)
    bags = stored(tmp_path / "pixels.parquet")
    y = pd.Series(rng.poisson(20.0, len(bags)).astype(float), index=list(bags.labels))
    models = [
        vbagg.VBAgg("poisson", kernel=vbagg.kernels.RBF(), landmarks=4, hyper="point").fit(own, y)
        for own in (bags, expected(frame))
    ]
    assert models[0].elbo_ == models[1].elbo_


def test_what_cannot_be_read_is_named(frame, tmp_path):
    path = tmp_path / "pixels.parquet"
    frame.iloc[::-1].iloc[[0, 5, 1, 6, 2]].to_parquet(path, index=False)
    with pytest.raises(ValueError, match=r"follow each other in one file; bag.* are in several places. Sort the rows"):
        len(stored(path))
    frame.to_parquet(path, index=False)
    with pytest.raises(ValueError, match="has no column 'persons'; it has area, rain"):
        Bags.from_parquet(path, bag="area", weight="persons")
    with pytest.raises(ValueError, match=r"must be a Parquet file, or a folder with files called \*.parquet"):
        Bags.from_parquet(tmp_path / "nothing")
    frame.drop(columns="rain").to_parquet(tmp_path / "second.parquet", index=False)
    with pytest.raises(ValueError, match="must have the same columns"):
        Bags.from_parquet(tmp_path, bag="area", weight="people")
