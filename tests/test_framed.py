"""Bags in Dask data frames."""

import numpy as np
import pandas as pd
import pytest

import vbagg
from vbagg import chunks
from vbagg.bags import Bags

dd = pytest.importorskip("dask.dataframe", reason="needs Dask: pip install vbagg[cluster]")
COLUMNS = {"features": ["height", "rain"], "bag": "area", "weight": "people"}


@pytest.fixture
def table(rng):
    """Fourteen bags of very different sizes; one is without weight, and many rows are."""
    sizes = rng.integers(2, 40, 14)
    sizes[[3, 8]] = 90, 1
    n = sizes.sum()
    people = rng.integers(1, 9, n).astype(float) * (rng.random(n) > 0.2)
    area = np.repeat([f"district {i}" for i in rng.permutation(14)], sizes)
    people[np.flatnonzero(np.append(True, area[1:] != area[:-1]))] = 3.0
    people[area == area[sizes[:5].sum()]] = 0.0
    return pd.DataFrame(
        {"area": area, "rain": rng.normal(size=n), "height": rng.gamma(2.0, 1.0, n), "people": people, "note": "text"},
        index=rng.permutation(n),
    )


def framed(table, *edges):
    """A Dask data frame whose partitions end at these rows."""
    parts = np.split(np.arange(len(table)), edges)
    return dd.from_map(lambda rows: table.iloc[rows], parts, meta=table.iloc[:0])


def in_memory(table):
    kept = table[table.groupby("area")["people"].transform("sum") > 0].reset_index(drop=True)
    return Bags(kept[["height", "rain"]], kept["area"], kept["people"])


def model():
    return vbagg.VBAgg("poisson", kernel=vbagg.kernels.RBF(), landmarks=8, hyper="point")


@pytest.mark.parametrize("edges", [(), (40, 41, 41, 120), tuple(range(7, 200, 7))])
def test_bags_are_those_of_the_table(table, edges):
    """One partition; a bag cut several times and an empty partition; partitions smaller than bags."""
    bags, whole = Bags.from_dask(framed(table, *edges), **COLUMNS), in_memory(table).drop_zero_weight()
    assert len(bags) == 13
    assert bags.labels.tolist() == whole.labels.tolist()
    np.testing.assert_array_equal(bags.sizes, whole.sizes)
    for first, last in ((0, 13), (0, 4), (4, 6), (6, 13)):
        found = Bags(**bags.rows(first, last).read()).drop_zero_weight()
        np.testing.assert_array_equal(found.X, whole[first:last].X)
        np.testing.assert_array_equal(found.weight, whole[first:last].weight)
        assert found.labels.tolist() == whole.labels[first:last].tolist()
        assert found.feature_names == ("height", "rain")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_fits_are_those_from_memory_and_from_files(client, table, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "BLOCK", 60)
    table.to_parquet(tmp_path / "pixels.parquet", index=False)
    stored, whole = Bags.from_parquet(tmp_path / "pixels.parquet", **COLUMNS), in_memory(table)
    y = pd.Series(rng.poisson(30.0, 13).astype(float), index=list(whole.labels))
    bags = Bags.from_dask(framed(table, *range(25, 200, 25)), **COLUMNS)
    fitted, alone = model().fit(bags, y, client=client), model().fit(whole, y)
    assert fitted.elbo_ == model().fit(stored, y, client=client).elbo_
    assert fitted.elbo_ == pytest.approx(alone.elbo_, rel=1e-6)
    np.testing.assert_allclose(fitted.posterior(whole).mean, alone.posterior(whole).mean, rtol=1e-3)
    with pytest.raises(AttributeError, match="needs the training data in this process"):
        fitted.elbo_mc_  # noqa: B018
    assert model().fit(bags, y).elbo_ == alone.elbo_


@pytest.mark.filterwarnings("ignore")
def test_little_data_are_read_here(client, table, rng):
    y = rng.poisson(30.0, 13).astype(float)
    bags = Bags.from_dask(framed(table, 50), **COLUMNS)
    assert model().fit(bags, y, client=client).elbo_ == model().fit(in_memory(table), y).elbo_


def test_what_cannot_work_is_named(table, client):
    mixed = framed(pd.concat([table.iloc[50:], table.iloc[:50]]), 100)
    rule = (
        r"follow each other, within partitions and from one to the next; bag.* are in several places\. Sort the data "
    )
    with pytest.raises(ValueError, match=rule + r"frame first: `frame\.sort_values\('area'\)`"):
        model().fit(Bags.from_dask(mixed, **COLUMNS), np.ones(13), client=client)
    frame = framed(table, 50)
    with pytest.raises(ValueError, match="The data frame has no column 'place'; it has area, rain"):
        Bags.from_dask(frame, bag="place")
    with pytest.raises(ValueError, match=r"must have 'area' as a column; it is the index\. Use `frame\.reset"):
        Bags.from_dask(framed(table.set_index("area"), 50), bag="area", weight="people")
    with pytest.raises(TypeError, match="`frame` must be a Dask data frame; got DataFrame"):
        Bags.from_dask(table, **COLUMNS)
    with pytest.raises(ValueError, match="`offset` goes with bags in this process, not with stored ones or"):
        model().fit(Bags.from_dask(frame, **COLUMNS), np.ones(13), offset=np.ones(len(table)), client=client)


def test_sorting_as_the_message_says_helps(table):
    mixed = framed(pd.concat([table.iloc[50:], table.iloc[:50]]), 100)
    bags = Bags.from_dask(mixed.sort_values("area"), **COLUMNS)
    assert sorted(bags.labels) == bags.labels.tolist()
    assert (
        dict(zip(bags.labels, bags.sizes, strict=True)) == table[table["people"] > 0].groupby("area").size().to_dict()
    )


def test_partitions_that_change_are_refused(table):
    bags = Bags.from_dask(framed(table, 50), **COLUMNS)
    assert len(bags) == 13
    bags.frame = framed(table.assign(people=table["people"] + 1.0), 50)
    with pytest.raises(ValueError, match="must be the same each time they are made; some changed"):
        bags.rows().read()


@pytest.mark.parametrize("edges", [(), (40, 41, 41, 120)])
def test_some_of_the_bags(table, edges):
    bags, whole = Bags.from_dask(framed(table, *edges), **COLUMNS), in_memory(table).drop_zero_weight()
    chosen = np.arange(13) % 3 != 1
    found = Bags(**bags[chosen].rows().read()).drop_zero_weight()
    np.testing.assert_array_equal(found.X, whole[chosen].X)
    assert found.labels.tolist() == whole.labels[chosen].tolist()
