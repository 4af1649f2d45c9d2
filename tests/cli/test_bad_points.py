"""Points that cannot be used: status 2 and one clear sentence, before any raster is read."""

import re

import geopandas as gpd
import pytest
from shapely import box
from small_surveys import LAT, LON, surveys
from tiny_country import write_files

from vbagg.cli import main

pytestmark = pytest.mark.filterwarnings("ignore:.*there are only 12 polygons")
ON = ("--id", "name", "--response", "cases", "--point-response", "positive", "--point-trials", "tested")


def csv(**changes):
    return lambda folder: surveys(**changes).to_csv(folder / "surveys.csv", index=False)


def raw(content):
    return lambda folder: (folder / "surveys.csv").write_bytes(content)


def polygons(folder):
    gpd.GeoDataFrame({"positive": [1]}, geometry=[box(30, -2, 31, -1)], crs=4326).to_file(folder / "surveys.gpkg")


def with_title(folder):
    surveys().to_csv(folder / "surveys.csv", index=False)
    content = (folder / "surveys.csv").read_text()
    (folder / "surveys.csv").write_text("Surveys of 2024,,,,\n" + content)


FILES = {
    "there is none": ("surveys.csv", lambda folder: None, (), "there is no .*surveys.csv. Correct the path"),
    "no bytes": ("surveys.csv", raw(b""), (), "must not be empty"),
    "no rows": ("surveys.csv", raw(b"lon,lat,positive,tested\n"), (), "must have rows below the names of its columns"),
    "a page": ("surveys.csv", raw(b"<html><table>"), (), "it is a web page"),
    "no such column": ("surveys.csv", csv(), ("--at", "long,lat"), "no column 'long' of coordinates"),
    "one column": ("surveys.csv", csv(), ("--at", "lon"), "`--at` must name two columns"),
    "title": ("surveys.csv", with_title, ("--at", "lon,lat"), "'lon' stands in line 2, below 'Surveys of 2024'"),
    "text": ("surveys.csv", csv(positive=["many", 1, 1, 1, 1, 1, 1]), (), r"got 'many' \(line 2\)"),
    "date": ("surveys.csv", csv(tested=["2024-03-01", *[40] * 6]), (), r"got '2024-03-01' \(line 2\)"),
    "text as coordinates": ("surveys.csv", csv(lon=["30 24 E", *LON[1:]]), (), "must be decimal degrees, .* got '30"),
    "exchanged": ("surveys.csv", csv(lon=LAT, lat=LON), (), "exchanged: `--at lat,lon`"),
    "metres": ("surveys.csv", csv(lon=[3e5] * 7, lat=[9.8e6] * 7), (), "map projection: name it by `--point-crs`"),
    "elsewhere": ("surveys.csv", csv(lon=[3.0] * 7), (), "7 of 7 points lie elsewhere"),
    "too many": ("surveys.csv", csv(positive=[99, 1, 1, 1, 1, 1, 1]), (), r"got 99 of 21 \(line 2\)"),
    "all empty": ("surveys.csv", csv(positive=None), (), "of its rows 7 have no positive"),
    "polygons": ("surveys.gpkg", polygons, (), "must hold points; row 1 is a Polygon"),
    "people too": ("surveys.csv", csv(), ("--point-people", "tested"), "do not go together"),
    "no such likelihood": ("surveys.csv", csv(), ("--point-likelihood", "gauss"), "`model.point_likelihood` is wrong"),
    "not theirs": ("surveys.csv", csv(), ("--point-likelihood", "poisson"), "'poisson' knows no numbers examined"),
    "slope": ("surveys.csv", csv(), ("--point-slope", "-2"), "a slope must be a positive number, or learnt"),
    "two responses": ("surveys.csv", csv(), ("--response", "other"), "Points go with one response of the polygons"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)

    def refuse(*arguments, **options):
        raise AssertionError("rasters were read")

    monkeypatch.setattr("vbagg.geo.layout.open_all", refuse)
    return tmp_path


def told(capsys, *arguments):
    assert main([*arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    assert len(lines[0]) < 500
    return lines[0]


@pytest.mark.parametrize("what", FILES)
def test_bad_points(folder, capsys, what):
    name, write, options, message = FILES[what]
    write(folder)
    inputs = ("--polygons", "districts.gpkg", "--population", "population.tif", "--population-is", "counts", *ON)
    of_model = any(option in ("--point-likelihood", "--point-slope") for option in options)
    for command in ("run",) if of_model else ("prepare", "run"):
        assert re.search(message, told(capsys, command, *inputs, "--points", name, *options, "--out", "out"))
        assert not (folder / "out").exists()


def test_words_of_points_need_points(folder, capsys):
    inputs = ("--polygons", "districts.gpkg", "--population", "population.tif", *ON)
    for command in ("prepare", "run"):
        assert "goes with points; none were named" in told(capsys, command, *inputs, "--out", "out")
