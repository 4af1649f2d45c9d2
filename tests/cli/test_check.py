"""The command around the doctor; what it finds is tested beside it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import rasterio
import typer
from affine import Affine
from shapely import box

from vbagg.cli.check import check_command

LEFT, TOP, ACROSS, DOWN = 30.0, 10.0, 0.05, 0.04
SIZE_X, SIZE_Y, NX, NY = 5, 3, 6, 4  # cells of a district, and districts, along each side


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Twenty-four districts on a grid with a margin of one cell, in the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    shape = NY * SIZE_Y + 2, NX * SIZE_X + 2
    people = rng.gamma(2, 300, shape).astype(np.float32)
    planes = {"population.tif": people, "rain.tif": rng.normal(10, 2, shape).astype(np.float32)}
    for name, values in planes.items():
        write(name, values)
    corners = [(x, y) for y in range(NY) for x in range(NX)]
    totals = people[1:-1, 1:-1].reshape(NY, SIZE_Y, NX, SIZE_X).sum((1, 3)).ravel()
    boxes = [
        box(
            LEFT + ACROSS * (1 + SIZE_X * x),
            TOP - DOWN * (1 + SIZE_Y * (y + 1)),
            LEFT + ACROSS * (1 + SIZE_X * (x + 1)),
            TOP - DOWN * (1 + SIZE_Y * y),
        )
        for x, y in corners
    ]
    cases = np.round(totals * rng.uniform(0.02, 0.04, len(boxes)))
    gpd.GeoDataFrame({"code": range(24), "cases": cases}, geometry=boxes, crs="EPSG:4326").to_file("districts.gpkg")


def write(name, values):
    height, width = values.shape
    place = Affine(ACROSS, 0, LEFT, 0, -DOWN, TOP)
    kind = {"driver": "GTiff", "dtype": values.dtype, "count": 1, "crs": "EPSG:4326", "transform": place}
    with rasterio.open(name, "w", height=height, width=width, **kind) as file:
        file.write(values, 1)


def run(*arguments):
    app = typer.Typer(add_completion=False)
    app.command()(check_command)
    return app(list(arguments), standalone_mode=False)


INPUTS = (
    *("--polygons", "districts.gpkg", "--id", "code", "--response", "cases", "--population", "population.tif"),
    *("--population-is", "counts", "--covariate", "rain.tif"),
)


def test_sound_data_have_status_0(capsys):
    assert run(*INPUTS) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("0 errors, 0 warnings, 0 pieces of advice. A run can begin.\n")
    assert "24 in districts.gpkg" in out
    assert "Warnings" not in out


def test_warnings_have_status_0(capsys):
    write("rain.tif", np.full((14, 32), 3, dtype=np.float32))
    assert run(*INPUTS) == 0
    assert "\nWarnings\n  - rain.tif: rain is 3 everywhere" in capsys.readouterr().out


def test_errors_have_status_2_and_are_all_told(capsys):
    assert run(*INPUTS, "--covariate", "absent.tif", "--response", "deaths", "--link", "identity") == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("3 errors, 0 warnings")
    errors = out.partition("\nErrors\n")[2].splitlines()
    assert [
        word for word in ("absent.tif", "'deaths'", "'identity'") if sum(word in line for line in errors) != 1
    ] == []


def test_json_is_one_document_and_nothing_else(capsys):
    assert run(*INPUTS, "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert (document["errors"], document["warnings"], document["advice"]) == ([], [], [])
    assert document["facts"]["polygons"]["number"] == 24
    assert run(*INPUTS, "--json", "--layer", "regions") == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["level"], error["code"], error["where"]) == ("error", "polygon-file", "districts.gpkg")


def test_settings_come_from_a_file_too(capsys):
    Path("sub").mkdir()
    Path("sub/settings.toml").write_text(
        '[data]\npolygons = "../districts.gpkg"\nid = "code"\nresponse = ["cases"]\npopulation = "../population.tif"\n'
        'population_is = "density"\n'
    )
    assert run("--config", "sub/settings.toml") == 0
    assert "(read as density)" in capsys.readouterr().out
    assert run("--config", "sub/settings.toml", "--population-is", "counts") == 0
    assert "(read as counts)" in capsys.readouterr().out


def test_wrong_settings_are_one_line():
    Path("settings.toml").write_text('[data]\npolygon = "districts.gpkg"\n')
    with pytest.raises(typer.TyperException, match="no key `polygon`; did you mean `polygons`") as caught:
        run("--config", "settings.toml")
    assert caught.value.exit_code == 2


def test_without_any_option_the_inputs_are_asked_for(capsys):
    assert run() == 2
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "  - A response is missing. Name the column with the totals by `--response`.",
        "  - Polygons are missing. Name the file with `--polygons`, or `polygons` in [data].",
    ]


def test_terminals_get_wrapped_text(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write("rain.tif", np.full((14, 32), 3, dtype=np.float32))
    assert run(*INPUTS) == 0
    lines = capsys.readouterr().out.splitlines()
    plain = [re.sub("\x1b[^m]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= 60
    assert "rain is 3 everywhere under the polygons, so it says nothing." in " ".join(" ".join(plain).split())


def test_nothing_is_left_behind():
    before = sorted(Path().rglob("*"))
    run(*INPUTS, "--covariate", "absent.tif")
    run(*INPUTS)
    assert sorted(Path().rglob("*")) == before


def test_the_module_is_quick_to_import():
    heavy = "{'jax', 'pandas', 'numpy', 'rasterio', 'geopandas'}"
    script = f"import sys, vbagg.cli.check; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
