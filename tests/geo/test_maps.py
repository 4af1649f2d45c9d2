import warnings

import numpy as np
import pandas as pd
import pytest
import rasterio
from tiny_country import GAP, HEIGHT, WIDTH, fitted_model, frame, prepared_country

import vbagg
from vbagg.errors import DataWarning
from vbagg.geo import maps
from vbagg.geo.cog import Description, RowWriter
from vbagg.geo.grid import Grid
from vbagg.geo.maps import write_maps

PER, LEVEL, THRESHOLD = 500.0, 0.8, 25.0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepared_country(tmp_path_factory.mktemp("country"))


@pytest.fixture(scope="module")
def written(prepared, tmp_path_factory):
    return write_maps(
        fitted_model(),
        prepared,
        tmp_path_factory.mktemp("maps"),
        response="cases",
        level=LEVEL,
        quantiles=(0.5, 0.9),
        threshold=THRESHOLD,
        per=PER,
        match_totals=True,
        progress=False,
    )


def values(path):
    with rasterio.open(path) as dataset:
        return dataset.read(1)


@pytest.fixture(scope="module")
def direct(prepared):
    """Posterior of each covered cell given the total of the polygon that covers most of it."""
    bags = prepared.bags()
    table = (
        prepared.pixels.iloc[bags.rows].reset_index(drop=True).sort_values("coverage", ascending=False, kind="stable")
    )
    chosen = table.drop_duplicates("cell").sort_values("cell")
    rows = chosen.index.to_numpy()
    return chosen["cell"].to_numpy(), fitted_model().posterior(bags).law[rows], fitted_model().information(bags), rows


def test_maps_are_those_asked_for(written):
    quantiles = ["rate_q0.1", "rate_q0.9", "rate_q0.5"]
    others = [
        "rate_mean",
        "rate_sd",
        "rate_interval_width",
        "exceedance",
        "information",
        "expected_count",
        "population",
    ]
    assert sorted(written) == sorted([*quantiles, *others, "expected_count_matched"])
    assert {path.name for path in written.values()} == {f"{name}.tif" for name in written}
    assert {path.name for path in written["rate_mean"].parent.iterdir()} == {f"{name}.tif" for name in written}


def test_maps_hold_the_posterior_of_each_cell(written, direct, prepared):
    cells, posterior, information, rows = direct
    lower, upper = posterior.interval(LEVEL)
    population = prepared.stack.at(cells, ["population"])[:, 0]
    expected = {
        "rate_mean": PER * posterior.mean,
        "rate_sd": PER * posterior.std,
        "rate_q0.1": PER * lower,
        "rate_q0.9": PER * upper,
        "rate_q0.5": PER * posterior.quantile(0.5),
        "rate_interval_width": PER * (upper - lower),
        "exceedance": posterior.exceedance(THRESHOLD / PER),
        "information": information.individuals[rows],
        "expected_count": posterior.mean * population,
        "population": population,
    }
    assert np.ptp(expected["exceedance"]) > 0.3  # the threshold tells cells apart
    assert np.ptp(expected["information"]) > 0.1
    for name, numbers in expected.items():
        np.testing.assert_allclose(values(written[name]).ravel()[cells], numbers, rtol=2e-4, atol=1e-6, err_msg=name)


def test_only_covered_cells_with_covariates_are_predicted(written, direct):
    mask = np.full(HEIGHT * WIDTH, False)
    mask[direct[0]] = True
    mask = mask.reshape(HEIGHT, WIDTH)
    assert not mask[GAP]
    assert not mask[:, 0].any()
    assert not mask[-1].any()
    assert mask.sum() == 11 * 7 - 1
    for name, path in written.items():
        np.testing.assert_array_equal(np.isfinite(values(path)), mask, err_msg=name)


def test_bands_of_rows_change_nothing(written, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(maps, "CELLS_PER_BAND", 2 * WIDTH)
    seen = []

    class Spy:
        def __getattr__(self, name):
            return getattr(fitted_model(), name)

        def posterior(self, X):
            seen.append(len(X))
            return fitted_model().posterior(X)

    reported = []
    again = write_maps(
        Spy(),
        prepared,
        tmp_path,
        response="cases",
        level=LEVEL,
        quantiles=(0.5, 0.9),
        threshold=THRESHOLD,
        per=PER,
        match_totals=True,
        progress=reported.append,
    )
    assert max(seen) <= 2 * WIDTH
    assert [entry["rows"] for entry in reported if "rows" in entry] == [2, 4, 6, 8, 10, 12]
    assert [entry["writing"] for entry in reported if "writing" in entry] == list(again)
    for name, path in written.items():
        np.testing.assert_allclose(values(again[name]), values(path), rtol=1e-5, err_msg=name)


def test_matched_counts_add_up_to_observed_totals(written, prepared):
    pixels = prepared.pixels

    def totals(name):
        counts = pixels["coverage"] * values(written[name]).ravel()[pixels["cell"]]
        return counts.groupby(pixels["polygon"]).sum()

    observed = prepared.y("cases")
    np.testing.assert_allclose(totals("expected_count_matched").loc[observed.index], observed, rtol=1e-4)
    assert np.abs(totals("expected_count").loc[observed.index] / observed - 1).max() > 0.02


def test_files_say_what_they_hold(written):
    with rasterio.open(written["exceedance"]) as dataset:
        tags = dataset.tags()
        assert tags["threshold"] == "25"
        assert dataset.units == ("probability",)
        assert dataset.descriptions == ("probability that the rate is above 25 cases per 500 people",)
    with rasterio.open(written["rate_q0.9"]) as dataset:
        tags = dataset.tags()
        assert dataset.crs.to_epsg() == 4326
        assert np.isnan(dataset.nodata)
        assert dataset.dtypes == ("float32",)
        assert dataset.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
    expected = {
        "map": "rate_q0.9",
        "units": "cases per 500 people",
        "quantile": "0.9",
        "level": "0.8",
        "model": "VBAgg",
        "likelihood": "poisson",
        "link": "exp",
        "response": "cases",
        "vbagg_version": vbagg.__version__,
        "title": "posterior quantile 0.9 of the rate",
    }
    assert tags.items() >= expected.items()
    with rasterio.open(written["rate_q0.5"]) as dataset:
        assert "level" not in dataset.tags()
    with rasterio.open(written["population"]) as dataset:
        assert dataset.units == ("people per cell",)
    with rasterio.open(written["expected_count"]) as dataset:
        assert dataset.units == ("cases per cell",)


def test_a_model_without_uncertainty_has_fewer_maps(prepared, tmp_path):
    model = vbagg.Constant().fit(prepared.bags(), prepared.y("cases"))
    written = write_maps(model, prepared, tmp_path, response="cases", threshold=1.0, progress=False)
    assert sorted(written) == ["expected_count", "population", "rate_mean"]
    rates = 1000 * prepared.y("cases").to_numpy() / prepared.bags().totals()
    np.testing.assert_allclose(np.nanmax(values(written["rate_mean"])), rates.max(), rtol=1e-6)
    assert np.ptp(rates) > 1


def test_without_population_rates_are_per_area(tmp_path):
    prepared = prepared_country(tmp_path, population=False)
    model = vbagg.Constant().fit(prepared.bags(), prepared.y("cases"))
    written = write_maps(model, prepared, tmp_path / "maps", response="cases", per=1.0, progress=False)
    assert "population" not in written
    row = slice(4, 5)
    np.testing.assert_allclose(values(written["area"])[4, 2:8], prepared.stack.grid.areas(row)[0, 2:8], rtol=1e-6)
    with rasterio.open(written["rate_mean"]) as dataset:
        assert dataset.units == ("cases per 1 km²",)


def test_a_failure_leaves_nothing_behind(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(maps, "CELLS_PER_BAND", 2 * WIDTH)
    (tmp_path / "rate_mean.tif").write_text("old")

    class Broken:
        calls = 0

        def get_params(self):
            return {"likelihood": "poisson"}

        def posterior(self, X):
            posterior = fitted_model().posterior(X)

            class Law:
                def __getitem__(self, rows):
                    Broken.calls += 1
                    if Broken.calls == 2:
                        raise KeyboardInterrupt
                    return posterior.law[rows]

            posterior.law = Law()
            return posterior

    with pytest.raises(KeyboardInterrupt):
        write_maps(Broken(), prepared, tmp_path, response="cases", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["rate_mean.tif"]
    assert (tmp_path / "rate_mean.tif").read_text() == "old"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 95}, "`level` must lie strictly between 0 and 1; got 95"),
        ({"level": 1e-300}, "ends of its interval differ; got 1e-300"),
        ({"level": 1e-8, "quantiles": [0.9]}, "ends of its interval differ"),
        ({"quantiles": (0.5, 1.0)}, "`quantiles` must lie strictly between 0 and 1; got 1.0"),
        ({"per": 0}, "`per` must be positive; got 0"),
        ({"response": "deaths"}, "`response` must be one of 'cases'; got 'deaths'"),
    ],
)
def test_wrong_options(prepared, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        write_maps(fitted_model(), prepared, tmp_path / "maps", **{"response": "cases", "progress": False, **options})
    assert not (tmp_path / "maps").exists()


def test_a_binomial_model_has_no_totals_to_match(prepared, tmp_path):
    trials = prepared.y("tested").to_numpy()
    model = vbagg.Constant("binomial").fit(prepared.bags(), prepared.y("cases"), trials=trials)
    with pytest.raises(ValueError, match="`match_totals` needs totals of the whole population"):
        write_maps(model, prepared, tmp_path, response="cases", match_totals=True, progress=False)


def test_large_rasters_have_overviews_and_stream(tmp_path):
    grid = Grid("EPSG:32738", (100.0, 0, 4e5, 0, -50.0, 7.9e6), 700, 530)
    expected = np.random.default_rng(0).random(grid.shape, dtype=np.float32)
    expected[100:300, :200] = np.nan
    expected[600:] = np.nan
    with RowWriter(tmp_path, grid) as writer:
        writer.add("noise", Description("some noise", "dB", {"colour": "white"}))
        for rows in grid.bands(77 * grid.width):
            if rows.start < 600:
                writer.write("noise", rows, expected[rows])
        np.testing.assert_array_equal(writer.read("noise", slice(90, 110)), expected[90:110])
        paths = writer.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["noise.tif"]
    with rasterio.open(paths["noise"]) as dataset:
        assert dataset.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert dataset.block_shapes == [(256, 256)]
        assert dataset.overviews(1) == [2, 4]
        assert dataset.tags()["colour"] == "white"
        assert dataset.units == ("dB",)
        assert Grid.of(dataset) == grid
        np.testing.assert_array_equal(dataset.read(1), expected)
        half = dataset.read(1, out_shape=(350, 265))
    np.testing.assert_allclose(half[10, 20], expected[20:22, 40:42].mean(), rtol=1e-6)
    assert np.isnan(half[60, 50])


def test_contradictions_are_reported(tmp_path):
    polygons = frame()
    twice = polygons.iloc[[0]].assign(name="copy", cases=900.0)
    prepared = prepared_country(tmp_path, polygons=pd.concat([polygons, twice], ignore_index=True))
    model = vbagg.Constant().fit(prepared.bags(), prepared.y("cases"))
    with pytest.warns(DataWarning, match=r"totals of 2 polygons cannot be matched.*'D00' has 28 instead of 14"):
        write_maps(model, prepared, tmp_path / "maps", response="cases", match_totals=True, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_maps(model, prepared, tmp_path / "maps", response="cases", progress=False)


def test_rates_of_trials_say_so(prepared, tmp_path):
    model = vbagg.Constant("binomial").fit(prepared.bags(), prepared.y("cases"), trials=prepared.y("tested").to_numpy())
    written = write_maps(model, prepared, tmp_path, response="cases", progress=False)
    with rasterio.open(written["rate_mean"]) as dataset:
        assert dataset.units == ("cases per 1000 trials",)
    with rasterio.open(written["population"]) as dataset:
        assert dataset.units == ("people per cell",)
