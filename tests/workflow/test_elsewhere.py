"""A fitted run on new ground: stages, words of Python and of the command line, and what is wrong with them."""

import shutil
import warnings

import geopandas as gpd
import numpy as np
import pytest
import rioxarray  # noqa: F401  (adds the accessor `rio`)
import tiny_country as tiny
import xarray
from geofiles import write_raster
from page_text import without_tags
from shapely import box

from vbagg import geo, numerals
from vbagg.cli import main
from vbagg.workflow import elsewhere
from vbagg.workflow.ground_page import GroundPage
from vbagg.workflow.run import Stage
from vbagg.workflow.settings import GroundSettings, make_settings, read_settings, write_settings


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    """A folder with files, and a run in `out`."""
    folder = tmp_path_factory.mktemp("country")
    files = tiny.write_files(folder)
    higher = (tiny.rasters()["height"] + 150).astype(np.float32)
    files["higher"] = write_raster(folder / "higher.tif", higher, tiny.TRANSFORM)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        geo.run(
            folder / "out",
            polygons=files["districts"],
            id="name",
            response="cases",
            population=files["population"],
            population_is="counts",
            covariate=[files["height"], files["wetness"]],
            skip_validation=True,
            level=0.8,
            progress=False,
            **{name: value for name, value in tiny.CHEAP.items() if name != "folds"},
        )
    return folder


@pytest.fixture
def own(country, tmp_path, monkeypatch):
    """A copy of it, where the test is."""
    shutil.copytree(country, tmp_path / "country")
    monkeypatch.chdir(tmp_path / "country")
    return tmp_path / "country"


def times(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("stage.json"))}


def test_the_command_line_and_python_say_the_same(own, capsys):
    """In the words of the run; nothing of which is changed. The files that it was made from need not be there."""
    for name in ("districts.gpkg", "height.tif"):
        (own / name).unlink()
    before = times(own / "out")
    status = main(["predict", "--out", "out", "--name", "2050", "--covariate", "height=higher.tif", "--level", "0.9"])
    told = capsys.readouterr()
    assert status == 0, told.err
    assert "extrapolation above 1" in told.out
    assert "elsewhere/2050/report/report.html" in told.out
    assert {path: time for path, time in times(own / "out").items() if path in before} == before
    values = (tiny.rasters()["height"] + 150).astype(np.float32)
    place = tiny.TRANSFORM
    x, y = place.c + place.a * (np.arange(tiny.WIDTH) + 0.5), place.f + place.e * (np.arange(tiny.HEIGHT) + 0.5)
    higher = xarray.DataArray(values, {"y": y, "x": x}, ("y", "x"), "any name").rio.write_crs(4326)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = geo.predict("out", covariate={"height": higher}, progress=False)
    assert found.folder.path.name == "new"
    maps = found.to_xarray()
    assert {"rate_mean", "rate_q0.1", "rate_q0.9", "extrapolation", "extrapolation_place", "population"} <= set(maps)
    by_command = geo.predict("out", name="2050", progress=False).to_xarray()
    assert "rate_q0.05" in by_command
    assert "rate_q0.1" not in by_command
    np.testing.assert_array_equal(maps["rate_mean"], by_command["rate_mean"])
    table = found.to_geopandas()
    assert {"total", "predicted_upper", "extrapolated"} <= set(table)
    assert found.beyond().cells == int(np.isfinite(maps["rate_mean"]).sum())
    assert maps.attrs["response"] == "cases"
    page = without_tags(found.pages()[0].read_text(encoding="utf-8"))
    assert "How far to trust it" in page
    assert found.beyond().sentences()[0] in page


def test_finished_stages_are_done_again_only_if_they_must(own):
    geo.predict("out", name="a", covariate={"height": "higher.tif"}, progress=False)
    first = times(own / "out/elsewhere/a")
    geo.predict("out", name="a", covariate={"height": "higher.tif"}, progress=False)
    assert times(own / "out/elsewhere/a") == first
    geo.predict("out", name="a", quantile=0.3, progress=False)  # the name alone goes on with what is there
    second = times(own / "out/elsewhere/a")
    changed = {path.parent.name for path in first if first[path] != second[path]}
    assert changed == {"maps", "report"}
    assert (own / "out/elsewhere/a/maps/cases/rate_q0.3.tif").exists()
    assert (
        read_settings(own / "out/elsewhere/a/settings.toml", GroundSettings).ground.covariate["height"].name
        == "higher.tif"
    )
    write_raster("higher.tif", (tiny.rasters()["height"] + 151).astype(np.float32), tiny.TRANSFORM)
    geo.predict("out", name="a", progress=False)
    third = times(own / "out/elsewhere/a")
    assert all(second[path] != third[path] for path in second)


def test_an_interrupted_prediction_goes_on(own, monkeypatch, capsys):
    command = ["predict", "--out", "out", "--name", "b", "--covariate", "height=higher.tif"]

    def interrupted(run, folder):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        stages = (elsewhere.PREPARED, Stage("maps", "predict", interrupted, (elsewhere.PREPARED,)))
        broken.setattr(elsewhere, "STAGES", stages)
        assert main(command) == 130
    assert "goes on" in capsys.readouterr().err
    prepared = (own / "out/elsewhere/b/prepared/stage.json").stat().st_mtime_ns
    assert main(command) == 0
    assert (own / "out/elsewhere/b/prepared/stage.json").stat().st_mtime_ns == prepared
    assert list((own / "out/elsewhere/b/maps/cases").glob("extrapolation.tif"))


def test_other_areas_and_people(own):
    areas = gpd.GeoDataFrame(
        {"zone": ["w", "e"]}, geometry=[box(30.43, -1.7, 30.6, -1.4), box(30.6, -1.7, 30.9, -1.4)], crs=4326
    )
    areas.to_file(own / "zones.gpkg")
    people = write_raster("people.tif", (2 * tiny.rasters()["population"]).astype(np.float32), tiny.TRANSFORM)
    options = {"population": people, "population_is": "counts", "to": own / "zones.gpkg", "progress": False}
    found = geo.predict("out", polygons=areas, id="zone", **options)
    table, sums = found.to_geopandas(), found.to_geopandas(name="zones")
    assert table["zone"].tolist() == ["w", "e"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        page = GroundPage(found, found.prepared(), "cases", own).report()
    inside = float(table["population"].sum())  # cells at borders have others as well
    assert inside < 0.98 * float(found.to_xarray()["population"].sum())
    assert dict(page.summary)["People"] == numerals.count(inside)
    assert "cases" not in table
    np.testing.assert_allclose(table["total"], sums["total"], rtol=1e-4)
    np.testing.assert_allclose(table["extrapolated"], sums["extrapolated"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--covariate hieght=higher.tif", "no covariate 'hieght'; did you mean `height`?"),
        ("--covariate height", "it must be NAME=FILE"),
        ("--covariate height=higher.tif --covariate height=height.tif", "'height' must be given once"),
        ("--covariate height=none.tif", "there is no none.tif"),
        ("--name x/y --population population.tif", "`ground.name` is wrong: it must begin with a letter or a digit"),
        ("--name later", "Nothing is new"),
        ("--polygons none.gpkg", "there is no none.gpkg"),
        ("--population population.tif --match-totals", "Leave it out"),
        ("--population population.tif --config x.toml", "Leave it out"),
    ],
)
def test_wrong_words_are_told_in_one_line(own, capsys, arguments, message):
    before = sorted(path for path in (own / "out").rglob("*") if path.name != "run.log")
    assert main(["predict", "--out", "out", *arguments.split()]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("Error: ")
    assert message in told
    assert sorted(path for path in (own / "out").rglob("*") if path.name != "run.log") == before


def test_a_run_must_be_fitted_and_whole(own, capsys):
    command = ["predict", "--covariate", "height=higher.tif", "--out"]
    assert main([*command, "nowhere"]) == 2
    assert "nowhere must be the folder of a fitted run" in capsys.readouterr().err
    (own / "out/models/cases.vbagg").write_bytes(b"nothing")
    assert main([*command, "out"]) == 2
    assert "out has no models that can be used: cases.vbagg has 7 bytes" in capsys.readouterr().err
    shutil.rmtree(own / "out/models")
    assert main([*command, "out"]) == 2
    assert "it was not finished. Run `vbagg run" in capsys.readouterr().err
    assert not (own / "out/elsewhere").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariate": ["a.tif"]}, "`covariate` must map names"),
        ({"covariate": {"height": 3}}, "`covariate` must be the name of a file, or an xarray.DataArray; got int"),
        ({"polygon": "x.gpkg"}, "There is no option `polygon` of new ground; did you mean `polygons`?"),
    ],
)
def test_wrong_objects_are_told(own, options, message):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        geo.predict("out", **options, progress=False)
    assert message in str(caught.value)


def test_settings_of_new_ground_survive_the_file(tmp_path):
    given = {
        "ground": {"covariate": ["odd name=in/a.tif", "b=c=d.tif"], "grid": "g.tif"},
        "data": {"covariate": ["h.tif"]},
    }
    settings = make_settings(given, "test", GroundSettings)
    write_settings(settings, tmp_path / "settings.toml")
    again = read_settings(tmp_path / "settings.toml", GroundSettings)
    assert list(again.ground.covariate) == ["odd name", "b"]
    assert again.ground.covariate["b"].resolve() == settings.ground.covariate["b"].resolve()
    with pytest.raises(ValueError, match="there is no section"):
        read_settings(tmp_path / "settings.toml")
