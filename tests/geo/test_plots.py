import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import rasterio
from geofiles import write_raster
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from shapely import MultiPolygon, Polygon
from tiny_country import TRANSFORM, fitted_model, prepared_country

import vbagg
from vbagg.colours import ColourScale
from vbagg.geo import diagnostics, plots
from vbagg.geo.aggregate import polygon_table
from vbagg.geo.described import Described
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


def titles(figure):
    """Title of the map, and what its colours mean, wherever that stands."""
    panel, bar = figure.axes
    return [panel.get_title(), bar.get_ylabel() or bar.get_xlabel()]


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
    assert titles(figure) == ["Observed rate", "cases per 1000 people"]


def test_input_map_leaves_out_missing_rates_and_shows_zeros(table, tmp_path, drawn):
    rates = table["observed_rate"].to_numpy(copy=True)
    rates[3], rates[5] = np.nan, 0.0
    plots.plot_input(
        table.assign(observed_rate=rates), tmp_path / "input.png", UNITS, scale=ColourScale(2.0, 900.0, True, "batlow")
    )
    (shapes,) = drawn[0].axes[0].collections
    shown = shapes.get_array()
    assert isinstance(shapes.norm, LogNorm)
    assert shown.mask.tolist() == [at == 3 for at in range(12)]
    assert shown[5] == shapes.norm.vmin == 2.0


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
    shared = ColourScale(20.0, 70.0, True, "batlow")
    for name, scale in (("rate_mean", shared), ("rate_sd", None), ("exceedance", None)):
        folder = tmp_path / name
        folder.mkdir()
        path = plots.plot_map(written[name], folder / "map.png", polygons=prepared.polygons, scale=scale)
        assert_picture(path, folder)
    rate, sd, exceedance = drawn
    assert titles(rate) == ["Predicted rate", "cases per 1000 people"]
    assert titles(sd) == ["Uncertainty: standard deviation\nof the rate", "cases per 1000 people"]
    assert isinstance(rate.axes[0].images[0].norm, LogNorm)
    assert rate.axes[0].images[0].get_clim() == (20.0, 70.0)
    assert exceedance.axes[0].images[0].get_clim() == (0.0, 1.0)
    assert titles(exceedance) == ["Probability that the rate is above\n40 cases per 1000 people", "probability"]
    # what is unlikely is pale
    assert sum(exceedance.axes[0].images[0].cmap(0.0)) > sum(exceedance.axes[0].images[0].cmap(1.0)) + 1.5
    image = rate.axes[0].images[0]
    left, right, bottom, top = image.get_extent()
    np.testing.assert_allclose([left, right, bottom, top], [30.2, 31.1, -1.9, -1.3])
    expected = plots.read_picture(written["rate_mean"]).values
    np.testing.assert_allclose(image.get_array().filled(np.nan), np.maximum(expected, image.norm.vmin))
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


@pytest.mark.parametrize(
    ("letters", "value", "text"),
    [("EW", 46.0, "46°E"), ("EW", -79.5, "79.5°W"), ("NS", -18.0, "18°S"), ("NS", 0.0, "0°"), ("EW", 182.0, "178°W")],
)
def test_degrees_are_told_with_their_side(letters, value, text):
    assert plots._degrees(letters, value) == text


def test_marks_of_colours_are_those_of_the_scale(table, tmp_path, drawn):
    scale = ColourScale(3.0, 800.0, True, "batlow")
    plots.plot_input(table, tmp_path / "input.png", UNITS, scale=scale)
    bar = drawn[0].axes[1]
    axis = bar.yaxis if bar.get_ylabel() else bar.xaxis
    assert [text.get_text() for text in axis.get_ticklabels()] == [mark.text for mark in scale.ticks]
    np.testing.assert_allclose(axis.get_ticklocs(), [mark.value for mark in scale.ticks])


@pytest.mark.parametrize("kind", [plots.RATIO, "information", "extrapolation", "expected_count_matched"])
def test_titles_fit_over_narrow_maps(tmp_path, drawn, kind):
    values = np.arange(12.0).reshape(12, 1) / 12 + 0.5
    raster = write_raster(tmp_path / "map.tif", values, (500, 0, 2e5, 0, -500, 8e6), "EPSG:32738")
    with rasterio.open(raster, "r+") as dataset:
        dataset.update_tags(map=kind)
    plots.plot_map(raster, tmp_path / "map.png")
    (figure,) = drawn
    renderer = FigureCanvasAgg(figure).get_renderer()
    title = figure.axes[0].title.get_window_extent(renderer)
    assert title.x0 >= 0
    assert title.x1 <= figure.bbox.x1


def test_dollars_in_words_of_users_are_no_formula(table, tmp_path, drawn):
    plots.plot_input(table, tmp_path / "input.png", Units("us$ or $ppp", 1000.0, "population"))
    assert r"us\$ or \$ppp per 1000 people" in titles(drawn[0])[1]


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
    np.testing.assert_allclose(inside[1], [10, 12])
    np.testing.assert_allclose(outside, [[200, 80]])
    zero = axes.get_xticks()[0]
    assert inside[0].tolist() == [zero, 1]
    assert axes.get_xlim()[0] < zero < 10 / 1.5
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "10", "20", "50", "100", "200"]
    # the lower end of the first interval is zero too
    segments = [line for lines in axes.collections if hasattr(lines, "get_segments") for line in lines.get_segments()]
    ends = {tuple(line[0]) for line in segments}
    assert (zero, axes.get_yticks()[0]) in ends
    assert axes.get_yticklabels()[0].get_text() == "0"
    texts = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert texts[:2] == ["inside its 90% interval: 2 of 3", "outside its 90% interval: 1 of 3"]
    assert "observed rate of 0: 1" in texts
    assert "observed total suppressed, not drawn: 2" in texts
    assert not any("goes on" in text for text in texts)
    assert axes.get_xlabel() == "observed (cases per 1000 people)"


def test_intervals_are_not_cut_at_the_frame(tmp_path, drawn):
    observed, predicted = np.array([3.0, 40.0, 500.0]), np.array([5.0, 30.0, 300.0])
    lower, upper = np.array([0.2, 8.0, 90.0]), np.array([30.0, 200.0, 4000.0])
    plot = partial(diagnostics.plot_observed_predicted, observed, predicted, units="u", level=0.9)
    plot(lower, upper, tmp_path / "all.png")
    low, high = drawn[0].axes[0].get_ylim()
    assert low < 0.2
    assert high > 4000
    assert drawn[0].axes[0].get_xlim()[0] > 0.5
    plot(lower / 1e4, upper, tmp_path / "far.png")
    axes = drawn[1].axes[0]
    assert "interval goes on below" in [text.get_text() for text in drawn[1].legends[0].get_texts()]
    (arrows,) = (dots for dots in axes.collections if dots.get_label() == "interval goes on below")
    np.testing.assert_allclose(arrows.get_offsets(), np.column_stack([observed, np.full(3, 0.03)]))


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
    (tmp_path / "other").mkdir()
    assert_picture(
        diagnostics.plot_coverage(Validated(), tmp_path / "other" / "c.png", what="districts"), tmp_path / "other"
    )
    diagnostics.plot_pit(Validated(), tmp_path / "pit.png", what="districts")
    (curve,), (bars,) = (figure.axes for figure in drawn)
    np.testing.assert_allclose(curve.lines[1].get_xydata(), [[50, 40], [90, 95]])
    np.testing.assert_allclose([bar.get_height() for bar in bars.containers[0]], [10, 40, 30, 20])
    assert curve.get_ylabel() == "unseen districts inside it (%)"
    assert bars.get_ylabel() == "unseen districts (%)"


def test_relevance_finds_the_one_covariate_that_matters(prepared, tmp_path, drawn):
    found = relevance(Steep(), prepared, draws=20)
    assert found.index[0] == "height"
    assert found.loc["height", "share"] == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(found.loc[["location", "wetness"], "upper"], 0, atol=1e-12)
    labels = {"height": "Height above the sea\nheight (m)"}
    assert_picture(diagnostics.plot_relevance(found, tmp_path / "relevance.png", labels=labels), tmp_path)
    texts = [text.get_text() for text in drawn[0].axes[0].get_yticklabels()]
    assert texts[-1] == labels["height"]
    assert set(texts[:-1]) == {"location", "wetness"}


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
    told = replace(prepared, described={"height": Described("Height above the sea", "m")})
    top = diagnostics.highest_rate(curves)
    assert all(curve["upper"].max() < top for curve in curves.values())
    for name, curve in curves.items():
        (tmp_path / name).mkdir()
        path = tmp_path / name / "dependence.png"
        assert_picture(diagnostics.plot_dependence(curve, name, told, path, units=UNITS.rate, top=top), tmp_path / name)
    panels = [figure.axes[0] for figure in drawn]
    assert [axes.get_xlabel() for axes in panels] == ["Height above the sea\nheight (m)", "wetness"]
    assert [axes.get_ylim() for axes in panels] == [(0, top)] * 2
    np.testing.assert_allclose(panels[0].lines[0].get_xdata(), curves["height"]["value"])


def test_a_band_that_flares_up_does_not_flatten_curves():
    curves = {
        "calm": pd.DataFrame({"rate": [10.0, 20.0], "upper": [15.0, 25.0]}),
        "wild": pd.DataFrame({"rate": [12.0, 18.0], "upper": [30.0, 900.0]}),
    }
    assert diagnostics.highest_rate(curves) == pytest.approx(1.05 * 60)
    assert diagnostics.highest_rate({"calm": curves["calm"]}) == pytest.approx(1.05 * 25)


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
    axes = figure.axes[0]
    filled, _, outlined = axes.collections
    low, high = filled.get_clim()
    assert low * high == pytest.approx(1.0)
    assert isinstance(filled.norm, LogNorm)
    assert filled.norm(1.0) == pytest.approx(0.5)
    np.testing.assert_allclose(filled.get_array().compressed(), table["effect"].dropna())
    assert len(outlined.get_paths()) == 1
    assert outlined.get_linewidth()[0] > 3 * filled.get_linewidth()[0]
    assert titles(figure)[1] == "times what covariates and neighbours give"
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
