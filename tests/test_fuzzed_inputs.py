"""Files and settings that were damaged or made up: each is refused in words, or is what it was."""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vbagg
from vbagg.io import DOCUMENT
from vbagg.workflow.settings import WORDS, from_words, read_settings, settings_text

FEW = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCALARS = st.none() | st.booleans() | st.integers(-3, 10**30) | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model file."""
    rng = np.random.default_rng(3)
    bags = vbagg.Bags(rng.normal(size=(14, 2)), np.repeat(np.arange(7), 2), rng.gamma(2.0, 1.0, 14))
    path = tmp_path_factory.mktemp("models") / "model"
    vbagg.BagGLM("poisson").fit(bags, rng.poisson(5.0, 7).astype(float)).save(path)
    return path.read_bytes()


def made_or_refused(make: Callable[[], Any]) -> tuple[Any, str]:
    """What was made, or the words in which it was refused; any other error is a fault."""
    try:
        return make(), ""
    except ValueError as error:
        return None, str(error)


def loaded(content: bytes, folder: Path) -> Any:
    """The model of a file, None if it is refused in words."""
    path = folder / "model"
    path.write_bytes(content)
    found, refusal = made_or_refused(lambda: vbagg.load(path))
    assert found is not None or str(path) in refusal
    return found


@FEW
@given(data=st.data())
def test_bytes_of_a_model_file_that_changed(saved, tmp_path, data):
    content = bytearray(saved)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    loaded(bytes(content[:cut] if data.draw(st.booleans()) else content), tmp_path)


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as container:
        return {name: container.read(name) for name in container.namelist()}


def places(value: Any, place: tuple = ()) -> list[tuple]:
    """Of all values inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, part in inner for found in places(part, (*place, key)))]


@FEW
@given(data=st.data())
def test_documents_of_a_model_file_that_say_something_else(saved, tmp_path, data):
    """Whatever stands in the place of a value: no other error, and nothing but a model."""
    parts = members(saved)
    document = json.loads(parts[DOCUMENT])
    place = data.draw(st.sampled_from(places(document)))
    other = data.draw(JSON)
    if not place:
        document = other
    else:
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = other
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as container:
        for name, content in parts.items():
            container.writestr(name, json.dumps(document) if name == DOCUMENT else content)
    found = loaded(written.getvalue(), tmp_path)
    assert found is None or isinstance(found, vbagg.BagGLM)


@FEW
@given(words=st.dictionaries(st.sampled_from(sorted(WORDS)), JSON, max_size=3))
def test_settings_of_any_kind(words):
    made, refusal = made_or_refused(lambda: from_words(words))
    if made is None:
        assert refusal
    else:
        assert tomllib.loads(settings_text(made, Path("run.toml")))


@FEW
@given(text=st.text(max_size=60) | st.binary(max_size=60))
def test_files_of_settings_of_any_kind(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    made, refusal = made_or_refused(lambda: read_settings(path))
    assert made is not None or str(path) in refusal
