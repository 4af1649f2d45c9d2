"""Files and settings that were damaged or made up: each is refused in words, or is what it was."""

from __future__ import annotations

import json
import tomllib
import warnings
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import DEEPEST, JSON, changed_bytes, examples, made_or_refused, replaced, snapshot
from hypothesis import given
from hypothesis import strategies as st

import vbagg
from vbagg.cli import main
from vbagg.io import DOCUMENT
from vbagg.workflow.settings import WORDS, Settings, from_words, read_settings, settings_text


def bags() -> vbagg.Bags:
    rng = np.random.default_rng(3)
    return vbagg.Bags(rng.normal(size=(14, 2)), np.repeat(np.arange(7), 2), rng.gamma(2.0, 1.0, 14))


@pytest.fixture(scope="module", params=["BagGLM", pytest.param("VBAgg", marks=pytest.mark.slow)])
def saved(request, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model file."""
    y = np.random.default_rng(4).poisson(5.0, 7).astype(float)
    path = tmp_path_factory.mktemp("models") / "model"
    if request.param == "BagGLM":
        model: Any = vbagg.BagGLM("poisson")
    else:
        model = vbagg.VBAgg("poisson", landmarks=3, inference=vbagg.Newton(max_iterations=1, starts=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vbagg.errors.ConvergenceWarning)
        model.fit(bags(), y).save(path)
    return path.read_bytes()


def loaded(content: bytes, folder: Path) -> Any:
    """The model of a file, None if it is refused in words."""
    path = folder / "model"
    path.write_bytes(content)
    before = snapshot(folder)
    found, refusal = made_or_refused(lambda: vbagg.load(path))
    assert found is not None or str(path) in refusal
    assert snapshot(folder) == before
    return found


@examples(150)
@given(data=st.data())
def test_bytes_of_a_model_file_that_changed(saved, tmp_path, data):
    loaded(changed_bytes(data.draw, saved), tmp_path)


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as container:
        return {name: container.read(name) for name in container.namelist()}


def zipped(parts: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    written = BytesIO()
    with zipfile.ZipFile(written, "w", how) as container:
        for name, content in parts.items():
            container.writestr(name, content)
    return written.getvalue()


@examples(150)
@given(data=st.data())
def test_documents_of_a_model_file_that_say_something_else(saved, tmp_path, data):
    """Whatever stands in the place of a value: no other error, and nothing but a model."""
    parts = members(saved)
    document = replaced(data.draw, json.loads(parts[DOCUMENT]))
    found = loaded(zipped({**parts, DOCUMENT: json.dumps(document).encode()}), tmp_path)
    assert found is None or isinstance(found, vbagg.BagGLM | vbagg.VBAgg)


@examples(100)
@given(data=st.data())
def test_arrays_of_a_model_file_that_are_others(saved, tmp_path, data):
    """Cut, emptied, swapped, of another shape or type, or with bytes that changed."""
    parts = members(saved)
    name = data.draw(st.sampled_from(sorted(set(parts) - {DOCUMENT})))
    how = data.draw(st.sampled_from(["bytes", "swapped", "missing", "made up"]))
    if how == "bytes":
        parts[name] = changed_bytes(data.draw, parts[name])
    elif how == "swapped":
        parts[name] = parts[data.draw(st.sampled_from(sorted(parts)))]
    elif how == "missing":
        del parts[name]
    else:
        shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
        kind = data.draw(st.sampled_from(["f8", "f4", "i8", "?", "U3", "c16", "S0", "M8[D]"]))
        buffer = BytesIO()
        np.save(buffer, np.zeros(shape, kind))
        parts[name] = buffer.getvalue()
    loaded(zipped(parts), tmp_path)


@examples(150)
@given(words=st.dictionaries(st.sampled_from(sorted(WORDS)), JSON, max_size=3))
def test_settings_of_any_kind(words):
    made, refusal = made_or_refused(lambda: from_words(words))
    if made is None:
        assert refusal
    else:
        assert tomllib.loads(settings_text(made, Path("run.toml")))


def read(content: bytes, folder: Path) -> Settings | None:
    """The settings of a file, None if they are refused in words."""
    path = folder / "run.toml"
    path.write_bytes(content)
    made, refusal = made_or_refused(lambda: read_settings(path))
    assert made is not None or str(path) in refusal
    return made


@examples(150)
@given(text=st.text(max_size=60) | st.binary(max_size=60))
def test_files_of_settings_of_any_kind(tmp_path, text):
    read(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"), tmp_path)


@examples(150)
@given(data=st.data())
def test_files_of_settings_that_changed(tmp_path, data):
    """Lines that are gone, doubled or say something else, and bytes that changed: what is read can be written again."""
    words = {"response": ["cases"], "polygons": "districts.gpkg", "covariate": ["rain.tif"], "quantile": [0.1]}
    lines = settings_text(from_words(words), tmp_path / "run.toml").splitlines()
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        key = lines[at].removeprefix("# ").partition(" =")[0]
        other = data.draw(JSON.map(lambda value: json.dumps(value, default=str)) | st.text(max_size=20))
        lines[at : at + 1] = data.draw(st.sampled_from([[], [lines[at]] * 2, [f"{key} = {other}"]]))
        lines = lines or [""]
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    made = read(changed_bytes(data.draw, content) if data.draw(st.booleans()) else content, tmp_path)
    if made is not None:
        assert read(settings_text(made, tmp_path / "run.toml").encode(), tmp_path) == made


def with_document(content: bytes, document: bytes) -> bytes:
    return zipped({**members(content), DOCUMENT: document})


def with_items_of_no_size(content: bytes) -> bytes:
    parts, header = members(content), BytesIO()
    about = {"descr": "|S0", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(header, about)
    return zipped({**parts, next(name for name in parts if name != DOCUMENT): header.getvalue()})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda content: with_document(content, DEEPEST), "is something else", id="deep"),
        pytest.param(
            lambda content: zipped({**members(content), "more": bytes(1 << 20)}, zipfile.ZIP_DEFLATED),
            "its members would take",
            id="inflated",
        ),
        pytest.param(with_items_of_no_size, "items in", id="no size"),
    ],
)
def test_model_files_that_would_take_what_there_is(saved, tmp_path, change, said):
    path = tmp_path / "model"
    path.write_bytes(change(saved))
    with pytest.raises(ValueError, match=said):
        vbagg.load(path)


@pytest.mark.parametrize(
    "text",
    [
        b"[data]\nresponse = " + DEEPEST,
        b"[data]\nresolution = " + b"9" * 5000,
        b"[data]\nresolution = inf",
        b"[maps]\nper = inf",
        b"[maps]\nper = 1e300",
        b"[maps]\nlevel = 1e-300",
        b'[data]\npolygons = "a\\u0000b"',
        b'[data]\nresponse = ["cases\\u0000"]',
    ],
    ids=["deep", "long", "endless cells", "endless unit", "vast unit", "no interval", "path", "column"],
)
def test_settings_that_no_run_could_use(tmp_path, text):
    assert read(text, tmp_path) is None


def test_settings_that_no_file_can_hold():
    with pytest.raises(ValueError, match="must be valid Unicode"):
        from_words({"response": "cases\udcff"})


def test_a_folder_in_the_place_of_settings(tmp_path, capsys):
    assert main(["run", "--config", str(tmp_path)]) == 2
    assert f"Error: {tmp_path} cannot be read" in capsys.readouterr().err
