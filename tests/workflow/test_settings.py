"""Settings of a run: TOML in and out, errors that name the key, options made from fields."""

import os
import re
from pathlib import Path
from typing import get_args

import pytest

from vbagg.likelihoods import REGISTERED
from vbagg.links import LINKS
from vbagg.workflow.settings import SECTIONS, Model, make_settings, read_settings, write_settings

GIVEN = {
    "data": {
        "polygons": "in/districts.gpkg",
        "response": ["cases", 'odd "name"'],
        "covariate": ["in/a.tif", "b.tif"],
        "resolution": 0.25,
    },
    "maps": {"threshold": 5.0, "quantile": [0.5], "match_totals": True},
}


def test_settings_survive_the_file(tmp_path, monkeypatch):
    """Paths count from the folder of the file, wherever it is read."""
    monkeypatch.chdir(tmp_path)
    settings = make_settings(GIVEN, "test")
    (tmp_path / "out").mkdir()
    write_settings(settings, Path("out/settings.toml"))
    assert read_settings(Path("out/settings.toml")) == settings
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = read_settings(Path("../out/settings.toml"))
    assert again.data.polygons == Path("../in/districts.gpkg")
    assert again.data.covariate == (Path("../in/a.tif"), Path("../b.tif"))
    assert again.maps == settings.maps
    assert os.listdir(tmp_path / "out") == ["settings.toml"]


def test_every_key_is_written_with_its_help(tmp_path):
    write_settings(make_settings({}, "test"), tmp_path / "settings.toml")
    text = (tmp_path / "settings.toml").read_text()
    for name, section in SECTIONS.items():
        assert f"[{name}]" in text
        for key, field in section.model_fields.items():
            assert f"{key} =" in text
            assert field.description in text


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"dta": {}}, "f.toml: there is no section [dta]; did you mean `data`?"),
        ({"model": {"liklihood": "x"}}, "f.toml: section [model] has no key `liklihood`; did you mean `likelihood`?"),
        ({"maps": {"level": 2}}, "f.toml: `maps.level` is wrong: Input should be less than 0.999999; got 2."),
        (
            {"model": {"point_slope": "-1"}},
            "f.toml: `model.point_slope` is wrong: a slope must be a positive number, or",
        ),
        ({"maps": 3}, "f.toml: [maps] must be a section; got 3."),
        ({"model": {"zzz": 1}}, "known: likelihood, link, trials"),
    ],
)
def test_what_is_wrong_is_named(table, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        make_settings(table, "f.toml")
    assert "\n" not in str(raised.value)


def test_files_that_are_no_settings(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        read_settings(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("data = [")
    with pytest.raises(ValueError, match="is not a TOML file"):
        read_settings(tmp_path / "bad.toml")


def test_choices_are_those_of_the_core():
    assert set(get_args(Model.model_fields["likelihood"].annotation)) == set(REGISTERED)
    link, none = get_args(Model.model_fields["link"].annotation)
    assert (set(get_args(link)), none) == (set(LINKS), type(None))


def test_options_have_one_name_each():
    keys = [key for section in SECTIONS.values() for key in section.model_fields]
    assert len(keys) == len(set(keys))
