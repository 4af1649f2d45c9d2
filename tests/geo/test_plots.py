import sys

import numpy as np
import pandas as pd
import pytest
from geofiles import write_raster
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from shapely import MultiPolygon, Polygon
from tiny_country import TRANSFORM, fitted_model, prepared_country

import vbagg
from vbagg.geo import diagnostics, plots
from vbagg.geo.aggregate import polygon_table
from vbagg.geo.maps import write_maps
from vbagg.geo.relevance import partial_dependence, relevance, sample_pixels, weighted_quantile
from vbagg.geo.units import Units

pytestmark = pytest.mark.filterwarnings("ignore:.*have the label of a training bag")

UNITS = Units("cases", 1000.0, "population")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepared_country(tmp_path_factory.mktemp("country"), missing="nearest")


@pytest.fixture(scope="module")
def constant(prepared):
    return vbagg.Constant().fit(prepared.bags(), prepared.y("cases"))


@pytest.fixture(scope="module")
def table(prepared, constant):
    return polygon_table(constant, prepared, "cases")


@pytest.fixture(scope="module")
def written(prepared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    return write_maps(fitted_model(), prepared, folder, response="cases", threshold=40.0, progress=False)


@pytest.fixture
def drawn(monkeypatch):
    """Figures as they are saved."""
    figures = []

    def keep(save):
        return lambda figure, path: figures.append(figure) or save(figure, path)

    for module in (plots, diagnostics):
        monkeypatch.setattr(module, "save", keep(module.save))
    return figures


def assert_picture(path, folder):
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert [file.name for file in folder.iterdir()] == [path.name]
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def labels(figure):
    return [axes.get_ylabel() for axes in figure.axes]


class Steep:
    """Rates are `exp(height / 300 + noise)`, the same noise at all places of a draw."""

    def get_params(self):
        return {"link": "exp"}

    def posterior(self, X):
        X = pd.DataFrame(X)

        class Answer:
            mean = np.exp(X["height"].to_numpy() / 300)

            def sample(self, n, seed):
                noise = np.random.default_rng(seed).normal(0, 0.1, n)
                return self.mean * np.exp(noise)[:, None]

        return Answer()


def test_input_map(table, tmp_path, drawn):
    path = plots.plot_input(table, tmp_path / "input.png", UNITS)
    assert_picture(path, tmp_path)
    (figure,) = drawn
    (shapes,) = figure.axes[0].collections
    np.testing.assert_allclose(shapes.get_array(), table["observed_rate"].clip(lower=shapes.norm.vmin))
    assert len(shapes.get_paths()) == 12
    assert labels(figure) == ["latitude (degrees)", "cases per 1000 people"]


def test_input_map_leaves_out_missing_rates_and_shows_zeros(table, tmp_path, drawn):
    rates = table["observed_rate"].to_numpy(copy=True)
    rates[3], rates[5] = np.nan, 0.0
    plots.plot_input(table.assign(observed_rate=rates), tmp_path / "input.png", UNITS, log=True)
    (shapes,) = drawn[0].axes[0].collections
    shown = shapes.get_array()
    assert isinstance(shapes.norm, LogNorm)
    assert shown.mask.tolist() == [at == 3 for at in range(12)]
    assert shown[5] == shapes.norm.vmin > 0


def test_input_map_hatches_totals_that_are_not_known(table, tmp_path, drawn):
    states = ["observed"] * 9 + ["missing"] * 2 + ["suppressed"]
    gaps = table.assign(observation=states, observed=[*table["observed"][:9], *[np.nan] * 3])
    plots.plot_input(gaps.assign(observed_rate=gaps["observed"]), tmp_path / "input.png", UNITS)
    (figure,) = drawn
    filled, *hatched = figure.axes[0].collections
    assert filled.get_array().mask.sum() == 3
    assert {shapes.get_hatch(): len(shapes.get_paths()) for shapes in hatched} == {"////": 2, "....": 1}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["total missing", "total suppressed"]
    plots.plot_input(gaps.assign(observed=1.0), tmp_path / "input.png", UNITS)
    assert (len(drawn[1].axes[0].collections), drawn[1].legends) == (1, [])


def test_holes_are_not_filled():
    # both rings run the same way round, which must not matter
    ring = Polygon([(0, 0), (4, 0), (4, 3), (0, 3)], [[(1, 1), (3, 1), (3, 2), (1, 2)]])
    island = Polygon([(1.5, 1.25), (1.5, 1.75), (1.9, 1.75), (1.9, 1.25)])
    figure = Figure(figsize=(4, 3), dpi=20)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 4), ylim=(0, 3))
    axes.axis("off")
    axes.add_collection(plots._filled(np.array([MultiPolygon([ring, island])], dtype=object), facecolor="black"))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    dark = np.asarray(canvas.buffer_rgba())[::-1, :, 0] < 128
    assert dark[10, 10]
    assert dark[30, 34]
    assert not dark[30, 50]
    assert not dark[22, 25]


def test_maps_of_all_kinds(prepared, written, tmp_path, drawn):
    for name, log in (("rate_mean", True), ("rate_sd", False), ("exceedance", True)):
        folder = tmp_path / name
        folder.mkdir()
        path = plots.plot_map(written[name], folder / "map.png", polygons=prepared.polygons, log=log)
        assert_picture(path, folder)
    rate, sd, exceedance = drawn
    assert labels(rate) == labels(sd) == ["latitude (degrees)", "cases per 1000 people"]
    assert isinstance(rate.axes[0].images[0].norm, LogNorm)
    assert labels(exceedance)[1] == "probability"
    assert exceedance.axes[0].images[0].get_clim() == (0.0, 1.0)
    assert exceedance.axes[0].get_title() == "Probability that the rate is above\n40 cases per 1000 people"
    image = rate.axes[0].images[0]
    left, right, bottom, top = image.get_extent()
    np.testing.assert_allclose([left, right, bottom, top], [30.2, 31.1, -1.9, -1.3])
    expected = plots.read_picture(written["rate_mean"]).values
    np.testing.assert_allclose(image.get_array().filled(np.nan), np.maximum(expected, image.norm.vmin))
    plots.plot_map(written["rate_mean"], tmp_path / "again.png", limits=(20.0, 30.0))
    assert drawn[-1].axes[0].images[0].get_clim() == (20.0, 30.0)
    # a degree of longitude is a little shorter than one of latitude, and limits hug what is predicted
    assert 1 < rate.axes[0].get_aspect() < 1.001
    assert rate.axes[0].get_xlim()[0] > 30.27


def test_projected_maps_are_in_kilometres(tmp_path, drawn):
    raster = write_raster(
        tmp_path / "map.tif", np.arange(12.0).reshape(3, 4), (500, 0, 2e5, 0, -250, 8e6), "EPSG:32738"
    )
    plots.plot_map(raster, tmp_path / "map.png")
    axes = drawn[0].axes[0]
    assert axes.get_xlabel() == "east (km)"
    assert axes.xaxis.get_major_formatter()(201500.0, 0) == "201.5"
    assert axes.get_title() == "map"


def test_large_rasters_are_reduced(tmp_path):
    values = np.random.default_rng(1).random((300, 210), dtype=np.float32)
    values[:, :50] = np.nan
    raster = write_raster(tmp_path / "large.tif", values, TRANSFORM, nodata=np.nan)
    picture = plots.read_picture(raster, longest_side=60)
    assert picture.values.shape == (60, 42)
    np.testing.assert_allclose(picture.values[7, 20], values[35:40, 100:105].mean(), rtol=1e-5)
    assert np.isnan(picture.values[:, :10]).all()
    np.testing.assert_allclose(picture.grid.bounds, (30.2, -16.3, 51.2, -1.3))


def test_observed_against_predicted(tmp_path, drawn):
    observed, predicted = [0.0, 10, 200, np.nan], [1.0, 12, 80, 3]
    lower, upper = [0.0, 4, 40, 1], [3.0, 30, 150, 5]
    path = diagnostics.plot_observed_predicted(
        observed,
        predicted,
        lower,
        upper,
        tmp_path / "scatter.png",
        units=UNITS.rate,
        level=0.9,
        left_out={"suppressed": 2},
    )
    assert_picture(path, tmp_path)
    axes = drawn[0].axes[0]
    inside, outside = (
        dots.get_offsets() for dots in axes.collections if hasattr(dots, "get_sizes") and len(dots.get_sizes())
    )
    np.testing.assert_allclose(inside, [[0.5, 1], [10, 12]])
    np.testing.assert_allclose(outside, [[200, 80]])
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "inside its 90% interval: 2 of 3" in texts
    assert "observed rate of 0, drawn at 0.5: 1" in texts
    assert "observed total suppressed, not drawn: 2" in texts
    assert axes.get_xlabel() == "observed (cases per 1000 people)"


class Validated:
    """Tables of calibration as a validation gives them."""

    def reliability(self):
        return pd.DataFrame({"level": [0.5, 0.9], "coverage": [0.4, 0.95], "low": [0.3, 0.8], "high": [0.7, 1.0]})

    def pit_histogram(self):
        edges = np.array([0, 0.25, 0.5, 0.75, 1])
        share = [0.1, 0.4, 0.3, 0.2]
        columns = {"left": edges[:-1], "right": edges[1:], "share": share, "expected": 0.25, "low": 0.1, "high": 0.4}
        return pd.DataFrame(columns)


def test_calibration(tmp_path, drawn):
    path = diagnostics.plot_calibration(Validated(), tmp_path / "calibration.png", what="districts")
    assert_picture(path, tmp_path)
    curve, bars = drawn[0].axes
    np.testing.assert_allclose(curve.lines[1].get_xydata(), [[50, 40], [90, 95]])
    np.testing.assert_allclose([bar.get_height() for bar in bars.containers[0]], [10, 40, 30, 20])
    assert curve.get_ylabel() == "unseen districts inside it (%)"


def test_relevance_finds_the_one_covariate_that_matters(prepared, tmp_path, drawn):
    found = relevance(Steep(), prepared, draws=20)
    assert found.index[0] == "height"
    assert found.loc["height", "share"] == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(found.loc[["location", "wetness"], "upper"], 0, atol=1e-12)
    assert_picture(diagnostics.plot_relevance(found, tmp_path / "relevance.png"), tmp_path)
    axes = drawn[0].axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()][-1] == "height"


def test_relevance_of_a_constant_rate_is_zero(prepared, constant):
    assert (relevance(constant, prepared) == 0).all(axis=None)


def test_partial_dependence_is_the_mean_rate_at_each_value(prepared):
    curve = partial_dependence(Steep(), prepared, "height", level=0.5, per=10.0, values=5, draws=4000)
    pixels = prepared.pixels
    height, weight = (pixels[name].to_numpy(float) for name in ("height", "weight"))
    by_people = weighted_quantile(height, weight, [0.01, 0.255, 0.5, 0.745, 0.99])
    np.testing.assert_allclose(2 * curve["value"], np.linspace(by_people[0], by_people[-1], 5) + by_people)
    np.testing.assert_allclose(curve["rate"], 10 * np.exp(curve["value"] / 300), rtol=0.01)
    spread = np.log(curve["upper"] / curve["lower"])
    np.testing.assert_allclose(spread, 2 * 0.6745 * 0.1, rtol=0.1)
    flat = partial_dependence(Steep(), prepared, "wetness", values=3)
    weight = pixels["weight"] / pixels["weight"].sum()
    np.testing.assert_allclose(flat["rate"], 1000 * weight @ np.exp(pixels["height"] / 300), rtol=0.05)
    with pytest.raises(ValueError, match="`covariate` must be one of 'height', 'wetness'; got 'depth'"):
        partial_dependence(Steep(), prepared, "depth")


def test_partial_dependence_is_drawn_in_the_units_of_the_covariate(prepared, tmp_path, drawn):
    curves = {name: partial_dependence(Steep(), prepared, name, values=7) for name in prepared.covariates}
    path = diagnostics.plot_partial_dependence(
        curves, prepared, tmp_path / "dependence.png", units=UNITS.rate, covariate_units={"height": "m"}
    )
    assert_picture(path, tmp_path)
    figure = drawn[0]
    assert [axes.get_xlabel() for axes in figure.axes[:2]] == ["height (m)", "wetness"]
    low, high = figure.axes[0].get_ylim()
    assert low == 0
    assert all(curve["upper"].max() < high for curve in curves.values())
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xdata(), curves["height"]["value"])


def test_pixels_are_drawn_by_weight(prepared):
    drawn = sample_pixels(prepared, 2000, seed=0)
    pixels = prepared.pixels
    share = pixels["weight"] / pixels["weight"].sum()
    assert drawn["height"].mean() == pytest.approx(share @ pixels["height"], rel=1e-3)
    empty = pixels[pixels["weight"] == 0]
    assert len(empty)
    assert not drawn["height"].isin(empty["height"]).any()


def test_weighted_quantiles():
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([1.0, 6.0, 3.0])
    np.testing.assert_array_equal(weighted_quantile(values, weight, [0.1, 0.6, 0.61, 0.9, 0.95]), [1, 1, 2, 2, 3])


def test_effects_are_centred_at_one(prepared, tmp_path, drawn):
    table = polygon_table(fitted_model(), prepared, "cases")
    table["stands_out"] = np.arange(12) == 4
    table.loc[7, "effect"] = np.nan
    table["observation"] = np.where(np.arange(12) == 7, "missing", "observed")
    table.loc[7, "observed"] = np.nan
    assert_picture(plots.plot_effects(table, tmp_path / "effects.png"), tmp_path)
    (figure,) = drawn
    axes, bar = figure.axes
    filled, _, outlined = axes.collections
    low, high = filled.get_clim()
    assert low * high == pytest.approx(1.0)
    assert isinstance(filled.norm, LogNorm)
    assert filled.norm(1.0) == pytest.approx(0.5)
    np.testing.assert_allclose(filled.get_array().compressed(), table["effect"].dropna())
    assert len(outlined.get_paths()) == 1
    assert outlined.get_linewidth()[0] > 3 * filled.get_linewidth()[0]
    assert bar.get_ylabel() == "times what covariates and neighbours give"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["total missing"]


def test_effects_that_are_differences_are_centred_at_zero(prepared, tmp_path, drawn):
    table = polygon_table(fitted_model(), prepared, "cases").assign(effect=np.linspace(-3, 8, 12))
    plots.plot_effects(table, tmp_path / "effects.png", difference=True)
    filled = drawn[0].axes[0].collections[0]
    assert filled.get_clim() == (-8.0, 8.0)
    assert not isinstance(filled.norm, LogNorm)


@pytest.mark.parametrize(
    ("effects", "difference", "limits"),
    [
        ([0.5, 1.3, np.nan], False, (0.5, 2.0)),
        ([0.99, 1.01], False, (0.8, 1.25)),
        ([0.0, 3.0], False, (1 / 3, 3.0)),
        ([-2.0, 1.0, np.nan], True, (-2.0, 2.0)),
        ([np.nan], False, (1 / np.e, np.e)),
    ],
)
def test_limits_of_effects_have_no_effect_in_their_middle(effects, difference, limits):
    np.testing.assert_allclose(plots.effect_limits(np.array(effects), difference), limits)
