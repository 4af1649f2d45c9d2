from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from sklearn.datasets import make_swiss_roll

from vbagg.drawing import save
from vbagg.experiments import figures, pictures
from vbagg.experiments.figures import (
    Marks,
    coverage_curves,
    coverage_error_curves,
    error_curves,
    map_panels,
    roll_scatter,
    roll_side,
)
from vbagg.experiments.plotting import method_style

METHODS = ("VBAgg-Sq", "VBAgg-Exp", "Constant", "Bag-pixel")


@pytest.fixture
def drawn(monkeypatch):
    """The figures in the order in which they were saved."""
    kept = []

    def keep(figure, path):
        kept.append(figure)
        return save(figure, path)

    monkeypatch.setattr(figures, "save", keep)
    monkeypatch.setattr(pictures, "save", keep)
    return kept


@pytest.fixture
def table(rng) -> pd.DataFrame:
    rows = []
    for bags in (50, 100, 300):
        for repetition in range(4):
            for at, method in enumerate(METHODS):
                nll = 2.0 + 0.1 * at + 5 / bags + rng.normal(scale=0.01) + (3.0 if method == "Bag-pixel" else 0.0)
                row = {"bags": bags, "repetition": repetition, "method": method, "nll": nll}
                if method.startswith("VBAgg"):
                    row |= {f"coverage_{p}": p / 100 - 0.05 * (at + 1) for p in (70, 75, 80, 85, 90, 95)}
                rows.append(row)
    return pd.DataFrame(rows)


def sensible(path: Path, wide: bool = True) -> None:
    height, width = imread(path).shape[:2]
    assert 300 < height < 4000
    assert 300 < width < 6000
    assert 8_000 < path.stat().st_size < 3_000_000
    assert [other.name for other in path.parent.iterdir() if other.name.startswith(".")] == []


def legend(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def curve(figure, label):
    [container] = [c for c in figure.axes[0].containers if c.get_label() == label]
    return container


# Curves


def test_error_curves_show_means_and_spreads(table, drawn, tmp_path):
    path = error_curves(
        table, "bags", "nll", tmp_path / "nll.png", references={"oracle": 2.05}, xlabel="bags of training"
    )
    sensible(path)
    [figure] = drawn
    assert legend(figure) == [*METHODS, "oracle"]
    line, _, [bars] = curve(figure, "VBAgg-Exp")
    groups = table[table["method"] == "VBAgg-Exp"].groupby("bags")["nll"]
    np.testing.assert_allclose(line.get_ydata(), groups.mean())
    half_lengths = [np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()]
    np.testing.assert_allclose(half_lengths, groups.std())
    np.testing.assert_allclose(line.get_xdata(), [50, 100, 300], atol=7)
    assert figure.axes[0].get_xlabel() == "bags of training"
    assert figure.get_supxlabel() == "mean ± standard deviation of 4 repetitions"


def test_error_curves_with_standard_errors_on_a_log_scale(table, drawn, tmp_path):
    sensible(error_curves(table, "bags", "nll", tmp_path / "nll.png", spread="se", logarithmic=True, title="Roll"))
    [figure] = drawn
    _, _, [bars] = curve(figure, "Constant")
    expected = table[table["method"] == "Constant"].groupby("bags")["nll"].std() / 2
    np.testing.assert_allclose([np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()], expected)
    assert figure.axes[0].get_yscale() == "log"
    assert "standard error" in figure.get_supxlabel()


def test_methods_off_the_scale_are_named(table, drawn, tmp_path):
    sensible(error_curves(table, "bags", "nll", tmp_path / "top.png", top=3.0))
    sensible(error_curves(table, "bags", "nll", tmp_path / "chosen.png", leave_out=["Constant", "Bag-pixel"]))
    by_top, by_name = drawn
    assert legend(by_top) == ["VBAgg-Sq", "VBAgg-Exp", "Constant", "Bag-pixel: off the scale\n(5.32 to 5.4)"]
    assert by_top.axes[0].get_ylim()[1] == 3.0
    assert [text.partition(":")[0] for text in legend(by_name)] == list(METHODS)
    assert len(by_name.axes[0].containers) == 2


def test_methods_without_results_are_named(table, drawn, tmp_path):
    table.loc[table["method"] == "Constant", "nll"] = np.nan
    methods = ["NN-Exp", "VBAgg-Exp", "Constant"]
    sensible(error_curves(table, "bags", "nll", tmp_path / "nll.png", methods=methods))
    [figure] = drawn
    assert legend(figure) == ["VBAgg-Exp"]
    assert figure.get_supxlabel().endswith("; without results: NN-Exp, Constant")


def test_one_repetition_of_one_setting(table, drawn, tmp_path):
    one = table[(table["repetition"] == 0) & (table["bags"] == 50)]
    sensible(error_curves(one, "bags", "nll", tmp_path / "nll.png"))
    assert drawn[0].get_supxlabel() == "one repetition"


def test_unequal_numbers_of_repetitions_are_told(table, drawn, tmp_path):
    error_curves(table[(table["repetition"] < 2) | (table["bags"] > 50)], "bags", "nll", tmp_path / "nll.png")
    assert drawn[0].get_supxlabel() == "mean ± standard deviation of 2 to 4 repetitions"


def test_coverage_curves(table, drawn, tmp_path):
    sensible(coverage_curves(table, tmp_path / "coverage.png"))
    [figure] = drawn
    assert legend(figure) == ["VBAgg-Sq", "VBAgg-Exp", "ideal"]
    np.testing.assert_allclose(curve(figure, "VBAgg-Exp")[0].get_ydata(), [60, 65, 70, 75, 80, 85])
    np.testing.assert_allclose(curve(figure, "VBAgg-Exp")[0].get_xdata(), [70, 75, 80, 85, 90, 95], atol=1)
    assert "without results: Constant, Bag-pixel" in figure.get_supxlabel()


def test_coverage_error_curves(table, drawn, tmp_path):
    table.loc[table["bags"] == 50, "coverage_70"] += 0.4  # now 0.3 above its level, not 0.1 below
    sensible(coverage_error_curves(table, "bags", tmp_path / "error.png"))
    points = curve(drawn[0], "VBAgg-Exp")[0].get_ydata()
    np.testing.assert_allclose(points, [(30 + 5 * 10) / 6, 10, 10])


def test_coverage_needs_its_columns(table, tmp_path):
    with pytest.raises(ValueError, match=r"coverage_70.*got none"):
        coverage_curves(table[["method", "nll"]], tmp_path / "coverage.png")


def test_styles_are_stable_and_distinct():
    names = ["VBAgg-Sq", "VBAgg-Exp", "VBAgg-Sq-Obj", "VBAgg-Exp-Obj", "VBAgg-Sq-Adam", "VBAgg-Exp-Adam"]
    names += ["Nystrom-Exp", "NN-Exp", "Bag-pixel", "Constant", "Something new"]
    styles = [method_style(name) for name in names]
    assert len({(s["color"], str(s["linestyle"]), s["marker"]) for s in styles}) == len(names)
    assert (
        method_style("VBAgg-Sq-Obj")["color"] == method_style("VBAgg-Sq")["color"] != method_style("VBAgg-Exp")["color"]
    )
    assert method_style("Nyström-Exp") == method_style("Nystrom-Exp")
    assert method_style("Something new") == {
        "color": "#661100",
        "marker": "h",
        "linestyle": "-",
        "markerfacecolor": "#661100",
    }


def test_a_figure_that_cannot_be_saved_leaves_the_old_one(table, tmp_path, monkeypatch):
    path = error_curves(table, "bags", "nll", tmp_path / "nll.png")
    before = path.read_bytes()
    monkeypatch.setattr("PIL.Image.Image.save", lambda self, path, **options: path.write_bytes(b"half") / 0)
    with pytest.raises(ZeroDivisionError):
        error_curves(table, "bags", "nll", path)
    assert path.read_bytes() == before


# The roll


def roll(rng, n=600, dimension=5):
    """Points of a roll in random order of the angle, hidden by an affine map; sorted along the axis, as bags are."""
    points, angle = make_swiss_roll(n, random_state=7)
    by_axis = np.argsort(points[:, 1])
    points, angle = points[by_axis], angle[by_axis]
    return points @ rng.normal(size=(3, dimension)) + rng.normal(size=dimension), points, angle


@pytest.mark.parametrize(("slope", "start"), [(0.5, 0.0), (0.106, -0.5)])
def test_the_roll_is_found_behind_an_affine_map(rng, slope, start):
    hidden, points, angle = roll(rng)
    across, depth = pictures._roll_coordinates(hidden, start + slope * angle)
    np.testing.assert_allclose(np.hypot(*across.T), slope * angle, rtol=1e-6)
    turning = np.unwrap(np.arctan2(*across[np.argsort(angle)].T[::-1]))
    np.testing.assert_allclose(np.diff(turning), np.diff(np.sort(angle)), atol=1e-6)
    assert np.corrcoef(depth, points[:, 1])[0, 1] > 0.99


def test_the_view_is_the_same_for_every_map(rng):
    hidden, points, angle = roll(rng)
    view, order = roll_side(hidden, angle)
    other_view, other_order = roll_side(points, angle)
    np.testing.assert_allclose(view, other_view, atol=1e-6)
    np.testing.assert_array_equal(order, other_order)
    assert points[order[0], 1] > np.quantile(points[:, 1], 0.95)
    outer_end = view[np.argsort(angle)[-5:]].mean(axis=0)
    assert (outer_end < 0).all()


def test_the_view_needs_the_true_rates(rng):
    hidden, _, _ = roll(rng)
    with pytest.raises(ValueError, match="Pass the true rates"):
        roll_side(hidden, rng.normal(size=len(hidden)))


def test_roll_scatter(rng, drawn, tmp_path):
    hidden, _, angle = roll(rng)
    panels = {
        "true rate": angle / 2,
        "posterior mean": angle / 2 + rng.normal(size=len(angle)),
        "posterior sd": angle**0,
    }
    shared = ["true rate", "posterior mean"]
    sensible(roll_scatter(hidden, panels, tmp_path / "roll.png", same_scale=shared, units={"posterior sd": "sd unit"}))
    [figure] = drawn
    truth, mean, sd = [axes.collections[0] for axes in figure.axes[:3]]
    assert truth.get_clim() == mean.get_clim() != sd.get_clim()
    assert truth.get_clim()[0] <= (angle / 2).min()
    assert [axes.get_title() for axes in figure.axes[:3]] == list(panels)
    assert [axes.get_ylabel() for axes in figure.axes[3:]] == ["", "", "sd unit"]


def test_roll_scatter_fills_rows_and_shares_scales(rng, drawn, tmp_path):
    hidden, _, angle = roll(rng)
    panels = {f"method {at}": angle * (1 + at) for at in range(5)}
    sensible(roll_scatter(hidden, panels, tmp_path / "roll.png", rate=angle, columns=3))
    rows = {round(axes.get_position().y0, 2) for axes in drawn[0].axes[:5]}
    assert len(rows) == 2
    assert len({axes.collections[0].get_clim() for axes in drawn[0].axes[:5]}) == 1


# Maps


@pytest.fixture
def rasters() -> dict[str, np.ndarray]:
    north, east = np.mgrid[0:20, 0:30]
    rate = np.exp(-north / 5.0)
    rate[:3, :4] = np.nan
    estimate = rate * (1 + 0.1 * np.sin(east))
    estimate[10, 10] = 0.0
    estimate[5, 5] += 1.0
    return {"true rate": rate, "estimate": estimate, "difference": estimate - rate}


def test_maps(rasters, drawn, tmp_path):
    path = map_panels(
        rasters,
        tmp_path / "maps.png",
        extent=(100.0, 400.0, -50.0, 150.0),
        log=["true rate", "estimate"],
        units="cases per person",
        same_scale=["true rate", "estimate"],
        colour_maps={"difference": "vik"},
        marks=Marks(lines=[[[100.0, 0.0], [900.0, 140.0]]], points=[[200.0, 20.0]], point_label="clinic"),
    )
    sensible(path)
    [figure] = drawn
    truth, estimate, difference = [axes.images[0] for axes in figure.axes[:3]]
    assert truth.get_clim() == estimate.get_clim()
    assert truth.get_clim() == pytest.approx((np.exp(-19 / 5), 1.0), rel=0.1)
    assert difference.get_clim()[0] == -difference.get_clim()[1]
    assert np.isnan(np.ma.filled(truth.get_array(), np.nan)[0, 0])
    assert truth.origin == "upper"
    assert figure.axes[0].get_xlim() == (100.0, 400.0)
    assert figure.axes[0].get_ylim() == (-50.0, 150.0)
    assert (figure.axes[0].get_xlabel(), figure.axes[3].get_ylabel()) == ("east (km)", "cases per person")
    assert legend(figure) == ["river", "clinic"]


def test_maps_of_one_value_or_none(drawn, tmp_path):
    flat = {"flat": np.full((4, 6), 2.0), "empty": np.full((4, 6), np.nan), "zero": np.zeros((4, 6))}
    flat |= {f"log {title}": raster for title, raster in flat.items()}
    log = [title for title in flat if title.startswith("log")]
    sensible(map_panels(flat, tmp_path / "flat.png", extent=(0, 6, 0, 4), log=log, same_scale=[]))


def test_a_scale_for_unknown_maps_is_refused(rasters, tmp_path):
    with pytest.raises(ValueError, match="got 'truth'"):
        map_panels(rasters, tmp_path / "maps.png", extent=(0, 1, 0, 1), same_scale=["truth"])


# The demonstration


def test_the_demonstration_draws(rng, tmp_path):
    from vbagg.demo import draw

    hidden, _, angle = roll(rng)
    data = SimpleNamespace(bags=SimpleNamespace(X=hidden), rate=angle / 2)
    law = SimpleNamespace(mean=angle / 2, std=angle / 20, interval=lambda level: (angle / 2 - level, angle / 2 + level))
    draw(data, law, tmp_path / "roll.png")
    sensible(tmp_path / "roll.png")
