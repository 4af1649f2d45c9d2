"""Maps and tables of new ground, against the model itself and loops over cells."""

import warnings

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
import tiny_country as tiny
from affine import Affine
from geofiles import write_raster
from shapely import box

import vbagg
from vbagg.geo import pieces, read_polygons
from vbagg.geo.beyond import Beyond, marked_by, suspicions
from vbagg.geo.ground import prepare_ground
from vbagg.geo.ground_maps import SUMMARY, TABLE, write_ground
from vbagg.geo.maps import contents_of
from vbagg.geo.trained import IN_RANGE, MOST_KNOWN, Trained, individuals_for

LEVEL, PER = 0.8, 1000.0
NAMES = ["x", "y", "height", "wetness"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny.prepared_country(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def trained(run):
    return Trained.of(run, "cases")


def ground_of(run, folder, change=lambda values: values, transform=tiny.TRANSFORM, **options):
    new = {}
    for name in ("height", "wetness"):
        values = tiny.rasters()[name]
        new[name] = write_raster(folder / f"{name}_new.tif", change(values).astype(np.float32), transform)
    return prepare_ground(run, new, missing="drop", folder=folder / "ground", **options)


def maps_of(ground, trained, folder, **options):
    model = tiny.fitted_model()
    contents = contents_of(model, ground, "cases", LEVEL, (), 60.0, PER)
    return write_ground(model, ground, trained, folder, contents, **options)


def read(path):
    with rasterio.open(path) as dataset:
        return dataset.read(1).ravel()


@pytest.fixture(scope="module")
def same(run, trained, tmp_path_factory):
    """The rasters of the fit once more, as new ones."""
    folder = tmp_path_factory.mktemp("same")
    with warnings.catch_warnings():
        warnings.simplefilter("error", vbagg.errors.DataWarning)  # no bag is taken for one of the fit
        ground = ground_of(run, folder)
        found = maps_of(ground, trained, folder / "maps", others=[("zones", zones())])
    return ground, found, folder / "maps"


def zones():
    shapes = [box(30.33, -1.82, 30.65, -1.31), box(30.65, -1.82, 30.97, -1.31)]
    frame = gpd.GeoDataFrame({"zone": ["west", "east"]}, geometry=shapes, crs=4326)
    return read_polygons(frame, "zone")


def test_cells_are_new_individuals(run, same):
    """Though polygons and rasters are those of the fit, nothing is conditioned on their totals."""
    _, found, _ = same
    cells = run.pixels.drop_duplicates("cell")
    posterior = tiny.fitted_model().posterior(cells[NAMES])
    low, high = posterior.interval(LEVEL)
    wanted = {"rate_mean": PER * posterior.mean, "rate_q0.1": PER * low, "rate_q0.9": PER * high}
    wanted |= {"rate_sd": PER * posterior.std, "exceedance": posterior.exceedance(60 / PER)}
    for name, values in wanted.items():
        np.testing.assert_allclose(read(found.maps[name])[cells["cell"]], values, rtol=1e-5, err_msg=name)
    assert np.isfinite(read(found.maps["rate_mean"])).sum() == len(cells)


def test_extrapolation_is_the_sd_over_that_of_the_training_data(run, same, trained):
    _, found, _ = same
    model, cells = tiny.fitted_model(), run.pixels.drop_duplicates("cell")
    edge = np.sort(model.latent_parts(trained.rows).covariates_sd)
    parts = model.latent_parts(cells[NAMES])
    marks = read(found.maps["extrapolation"])[cells["cell"]]
    np.testing.assert_allclose(marks, parts.covariates_sd / np.quantile(edge, MOST_KNOWN), rtol=1e-5)
    np.testing.assert_allclose(read(found.maps["extrapolation_place"])[cells["cell"]], parts.place_share, rtol=1e-5)


def test_totals_are_those_of_new_bags(run, same):
    """Polygons have the totals of bags that the model does not know, and so have other polygons that they make up."""
    _, _, folder = same
    model, bags = tiny.fitted_model(), run.bags()
    X = pd.DataFrame(bags.X, columns=NAMES)
    new = vbagg.Bags(X, np.array([f"new {label}" for label in bags.labels[bags.bag]], dtype=object), bags.weight)
    totals, counts = model.posterior_bags(new), model.predictive_bags(new)
    table = gpd.read_file(folder / "polygons.gpkg")
    np.testing.assert_allclose(table["total"], totals.mean, rtol=1e-6)
    np.testing.assert_allclose(table[["total_lower", "total_upper"]].T, totals.interval(LEVEL), rtol=1e-5)
    np.testing.assert_allclose(table[["predicted_lower", "predicted_upper"]].T, counts.interval(LEVEL))
    np.testing.assert_allclose(table["rate"], PER * totals.mean / new.totals(), rtol=1e-6)
    assert table["cases"].tolist() == tiny.frame()["cases"].tolist()  # its own columns stay
    sums = gpd.read_file(folder / "zones.gpkg").set_index("zone")
    west = [k for k in range(12) if k % 4 < 2]
    assert sums.loc["west", "total"] == pytest.approx(totals.mean[west].sum(), rel=1e-4)
    assert sums.loc["west", "population"] == pytest.approx(new.totals()[west].sum(), rel=1e-6)


def test_what_is_marked_is_counted_in_the_table_and_in_the_summary(run, trained, tmp_path):
    ground = ground_of(run, tmp_path, lambda values: 1.6 * values)
    found = maps_of(ground, trained, tmp_path / "maps", others=[("zones", zones())])
    marks, weight = read(found.maps["extrapolation"]), read(found.maps["population"])
    mapped = np.isfinite(read(found.maps["rate_mean"]))
    over = mapped & (marks > 1)
    assert 0 < over.sum() < mapped.sum()
    beyond = found.beyond
    assert (beyond.cells, beyond.marked) == (mapped.sum(), over.sum())
    assert beyond.marked_weight == pytest.approx(weight[over].sum(), rel=1e-6)
    place = read(found.maps["extrapolation_place"])
    assert beyond.far == (place[mapped] > 0.9).sum()
    pixels = ground.pixels
    for name in ground.covariates:
        low, high = np.quantile(trained.rows[name], [(1 - IN_RANGE) / 2, (1 + IN_RANGE) / 2])
        values = pixels.drop_duplicates("cell").set_index("cell")[name]
        outside = (values < low) | (values > high)
        own = beyond.covariates[name]
        assert own.outside == pytest.approx(outside.mean())
        assert own.outside_weight == pytest.approx(weight[values.index[outside]].sum() / weight[mapped].sum(), rel=1e-5)
        assert own.new == pytest.approx((values.min(), values.max()))
    share = pixels["weight"].where(marks[pixels["cell"]] > 1, 0.0).groupby(pixels["polygon"]).sum()
    table = gpd.read_file(tmp_path / "maps" / "polygons.gpkg").set_index("name")
    wanted = share / pixels.groupby("polygon")["weight"].sum()
    np.testing.assert_allclose(table["extrapolated"], wanted[table.index], rtol=1e-6)
    assert "extrapolated" in gpd.read_file(tmp_path / "maps" / "zones.gpkg")
    told = Beyond.from_json((tmp_path / "maps" / SUMMARY).read_text())
    assert told == beyond
    assert pd.read_csv(tmp_path / "maps" / TABLE)["covariate"].tolist() == beyond.table()["covariate"].tolist()
    text = told.sentences()[0]
    assert f"{over.sum() / mapped.sum():.0%} of the cells" in text
    assert "extrapolation above 1" in text


def test_the_covariate_with_the_excess_is_named(run, trained, tmp_path):
    higher = write_raster(tmp_path / "h.tif", (tiny.rasters()["height"] + 900).astype(np.float32), tiny.TRANSFORM)
    ground = prepare_ground(run, {"height": higher}, missing="drop", folder=tmp_path / "ground")
    cells = np.unique(ground.pixels["cell"])
    assert marked_by(tiny.fitted_model(), ground, cells, trained) == {"height": 1.0, "wetness": 0.0}
    inside = marked_by(tiny.fitted_model(), run, cells[20:24], trained)
    assert sum(inside.values()) < 1  # nothing is out of range in most of these


def test_shifted_rasters_shift_the_maps(run, trained, tmp_path):
    """A model without a place says the same of the same covariates, wherever they are."""
    kernel = vbagg.kernels.RBF(("height", "wetness"), ard=True)
    search = vbagg.Newton(max_iterations=2, starts=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
        model = vbagg.VBAgg("poisson", kernel=kernel, landmarks=5, inference=search, hyper="point")
        model.fit(run.bags(), run.y("cases"))
    found = []
    for number, shift in enumerate(((300, 0), (500, 160))):
        folder = tmp_path / str(number)
        folder.mkdir()
        where = tiny.TRANSFORM @ Affine.translation(*shift)
        people = write_raster(folder / "people.tif", tiny.rasters()["population"].astype(np.float32), where)
        ground = ground_of(run, folder, transform=where, population=people, population_is="counts")
        contents = contents_of(model, ground, "cases", LEVEL, (), None, PER)
        found.append(write_ground(model, ground, trained, folder / "maps", contents).maps)
    assert "extrapolation_place" not in found[0]
    for name in found[0]:
        np.testing.assert_array_equal(read(found[0][name]), read(found[1][name]), err_msg=name)
    with rasterio.open(found[1]["rate_mean"]) as dataset:
        assert dataset.transform.c == pytest.approx((tiny.TRANSFORM @ Affine.translation(500, 160)).c)
        assert not (folder / "maps" / "polygons.gpkg").exists()


def test_pieces_give_the_same_and_what_is_finished_is_not_done_again(run, trained, tmp_path, monkeypatch):
    """Answers about the pixels of other rasters do not count."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", 30)
    monkeypatch.setattr("vbagg.geo.areas.PIECE_ROWS", 30)
    model, asked = tiny.fitted_model(), []
    before = type(model).latent_parts
    monkeypatch.setattr(type(model), "latent_parts", lambda *a, **k: asked.append(1) or before(*a, **k))
    keep, results = tmp_path / "kept", []
    for number, change in enumerate((lambda v: v + 3, lambda v: v + 3, lambda v: v + 4)):
        folder = tmp_path / str(number)
        folder.mkdir()
        ground = ground_of(run, folder, change)
        assert len(ground.pieces.all) > 2
        asked.clear()
        found = maps_of(ground, trained, folder / "maps", keep=keep, others=[("zones", zones())])
        zone = gpd.read_file(folder / "maps" / "zones.gpkg")["total"]
        results.append((len(asked), read(found.maps["rate_mean"]), zone))
    (first, *same), (second, *again), (third, *other) = results
    assert second < first == third
    for one, two in zip(same, again, strict=True):
        np.testing.assert_array_equal(one, two)
    for one, two in zip(same, other, strict=True):
        assert not np.allclose(one, two, equal_nan=True)


def test_every_bag_counts_once_and_its_individuals_by_weight():
    weight = np.array([1.0, 0.0, 3.0, 5.0, 5.0])
    bags = vbagg.Bags(np.arange(10.0).reshape(5, 2), [1, 1, 1, 2, 2], weight)
    one, two = individuals_for(bags, 8)
    assert one[:, 0].tolist() == [0, 0, 4, 4, 4, 4, 4, 4]
    assert two[:, 0].tolist() == [6] * 4 + [8] * 4


def test_polygons_without_a_total_are_no_training_data(tmp_path):
    frame = tiny.frame()
    frame.loc[3, "cases"] = np.nan
    run = tiny.prepared_country(tmp_path, polygons=frame)
    rows = Trained.of(run, "cases").rows
    assert len(rows) == 11 * 64
    hidden = run.pixels[run.pixels["polygon"] == "D03"]["height"].astype(float)
    others = run.pixels[run.pixels["polygon"] != "D03"]["height"].astype(float)
    assert not set(rows["height"]) & (set(hidden) - set(others))


def test_other_units_are_suspected(run, trained, tmp_path):
    told = suspicions(ground_of(run, tmp_path), trained)
    assert told == []
    feet = write_raster(tmp_path / "f.tif", (100 * tiny.rasters()["height"]).astype(np.float32), tiny.TRANSFORM)
    (text,) = suspicions(prepare_ground(run, {"height": feet}, missing="drop", folder=tmp_path / "feet"), trained)
    assert text.startswith("height: new values are about")
    assert text.endswith("Are they in other units?")


def test_totals_that_no_number_can_hold_are_told(run, trained, tmp_path):
    """A slope in a covariate that is in quite other units leads to rates beyond all numbers."""
    search = vbagg.Newton(max_iterations=2, starts=1)
    options = {"landmarks": 4, "inference": search, "hyper": "point"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
        model = vbagg.VBAgg("poisson", kernel=vbagg.kernels.Linear(("height",)), **options)
        model.fit(run.bags(), run.y("cases"))
    ground = ground_of(run, tmp_path, lambda values: 1e5 * values)
    contents = contents_of(model, ground, "cases", LEVEL, (), None, PER)
    with pytest.raises(ValueError, match=r"must be finite.*are they in the same units"):
        write_ground(model, ground, trained, tmp_path / "maps", contents)
    assert not (tmp_path / "maps").exists()
