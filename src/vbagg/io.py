"""Fitted models in files: one zip container with a JSON document and an `.npy` member per array.

Nothing is pickled, so a stranger's file cannot run code: only the classes in `CLASSES`, `PARTS` and `MODELS` are
ever made from it. In the document a value that JSON lacks is a mapping of one tag to its content, such as
`{"Newton": {"starts": 1}}`, `{"tuple": [...]}` or `{"array": "parameters/landmarks.npy"}`.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import jax
import numpy as np

from vbagg import __version__, kernels
from vbagg.elbo import Parameters, Spec
from vbagg.errors import NotFittedError
from vbagg.features import FeatureMap
from vbagg.files import written_whole
from vbagg.geodesic import GeodesicChart
from vbagg.inference import INFERENCES, Gaussian, Status
from vbagg.kernels import Kernel, Prior
from vbagg.landmarks import Landmarks
from vbagg.likelihoods import Censored, Reported, likelihood_classes
from vbagg.likelihoods.within import Terms
from vbagg.links import LINKS
from vbagg.manifold import Manifold
from vbagg.observed import Observed
from vbagg.scaling import Scaler
from vbagg.view import View

FORMAT = "vbagg-model"
VERSION = 2
DOCUMENT = "model.json"
SECTIONS = ("package", "model", "parameters", "state")
MODELS = {
    "VBAgg": "vbagg.models.vbagg",
    "Constant": "vbagg.models.constant",
    "BagPixel": "vbagg.models.bagpixel",
    "Nystrom": "vbagg.models.nystrom",
    "ManifoldNN": "vbagg.models.network",
    "BagGLM": "vbagg.models.glm",
}
"""Estimators that can be stored, and their modules."""

PARTS = {
    "Fitted": "vbagg.models.fitted",
    "Member": "vbagg.models.predicted",
    "Frame": "vbagg.models.frame",
    "FittedObservations": "vbagg.models.observations",
    "PointFitted": "vbagg.models.point",
    "LandmarkFunction": "vbagg.models.functions",
    "Network": "vbagg.models.functions",
    "ConstantFitted": "vbagg.models.constant",
    "GLMFitted": "vbagg.models.glm",
}
"""Their fitted states, and the modules of these."""
CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *likelihood_classes().values(),
        *(type(link) for link in LINKS.values()),
        *INFERENCES.values(),
        *(Landmarks, Prior, Scaler, GeodesicChart, FeatureMap, Spec, Parameters, Gaussian, Observed, Status, Manifold),
        *(Censored, Reported, Terms, View),
    )
}
"""Other dataclasses that may stand in a file. Each is stored as its fields."""


def _class_of(name: str) -> type | None:
    """A dataclass that may stand in a file. Models know how to save themselves, so that they are known by name here."""
    return getattr(import_module(PARTS[name]), name) if name in PARTS else CLASSES.get(name)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, replacing a file of that name; an interrupted write changes nothing.

    The training data are not stored.
    """
    kind = type(model).__name__
    if type(model).__module__ != MODELS.get(kind):
        raise TypeError(f"`model` must be one of {', '.join(MODELS)}; got {kind}.")
    if not model.__sklearn_is_fitted__():
        raise NotFittedError(f"Only a fitted {kind} can be saved; call `fit(bags, y)` first.")
    target = _checked_target(path)
    parameters = model.get_params(deep=False)
    left_out = {*parameters, *model._not_stored}
    state = {name: value for name, value in vars(model).items() if name not in left_out}
    arrays: dict[str, np.ndarray] = {}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "package": __version__,
        "model": kind,
        "parameters": _encode_all(parameters, "parameters", arrays),
        "state": _encode_all(state, "state", arrays),
    }
    _write(target, document, arrays)


def digest(model: Any) -> str:
    """Text that tells a fitted model from any other."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.vbagg"
        save(model, path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; its predictions are those of the original, bit for bit."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"`path` must be a file that `save` wrote; got the folder {os.fspath(path)!r}.")
    name = os.fspath(path)
    with open(path, "rb") as file:
        members = _members(file, name)
    document = _document(members, name)
    try:
        return _rebuild(document, members)
    except Exception as error:  # whatever a document that `save` did not write leads to
        raise _damaged(name, error) from error


def _checked_target(path: str | os.PathLike[str]) -> Path:
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"`path` must name a file; got the folder {os.fspath(path)!r}. Add a file name.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"`path` must lie in an existing folder; got {os.fspath(path)!r}. Create it first.")
    return target


def _write(target: Path, document: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write all members under a temporary name beside `target` and move the complete file into place."""
    with written_whole(target) as file, zipfile.ZipFile(file, "w") as container:
        container.writestr(zipfile.ZipInfo(DOCUMENT), json.dumps(document, indent=1))
        for name, array in arrays.items():
            container.writestr(zipfile.ZipInfo(name), _npy(array))


def _npy(array: np.ndarray) -> bytes:
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _members(file: BinaryIO, path: str) -> dict[str, bytes]:
    """Content of every member; reading verifies the checksums."""
    try:
        with zipfile.ZipFile(file) as container:
            _refuse_inflated(container, os.fstat(file.fileno()).st_size)
            return {name: container.read(name) for name in container.namelist()}
    except Exception as error:  # the library raises a dozen types when bytes have changed
        file.seek(0)
        if file.read(2) == b"PK":
            raise _damaged(path, error) from error
        raise _foreign(path) from error


def _refuse_inflated(container: zipfile.ZipFile, size: int) -> None:
    """Refuse members that would take more memory than the file, in which `save` compresses nothing."""
    claimed = sum(member.file_size for member in container.infolist())
    if claimed > size:
        raise ValueError(f"its members would take {claimed:,} bytes, and it has {size:,}")


def _document(members: Mapping[str, bytes], path: str) -> dict[str, Any]:
    """Refuse other formats, newer versions and documents with missing sections."""
    try:
        document = json.loads(members[DOCUMENT])
    except (KeyError, ValueError, RecursionError) as error:
        raise _foreign(path) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _foreign(path)
    version, package = document.get("version"), document.get("package")
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(
            f"The format version of a model file must be at most {VERSION}; {path!r} has {version!r}, "
            f"written by vbagg {package}. Load it with that release or a later one."
        )
    if version < VERSION:
        raise ValueError(
            f"The format version of a model file must be {VERSION}; {path!r} has {version}, written by vbagg "
            f"{package}, whose models predict otherwise. Fit the model again."
        )
    missing = [name for name in SECTIONS if name not in document]
    if missing:
        raise ValueError(
            f"A model file must have {', '.join(SECTIONS)}; {path!r} lacks {', '.join(missing)}. Save the model again."
        )
    if not isinstance(document["model"], str) or document["model"] not in MODELS:
        raise ValueError(
            f"A model file must hold one of {', '.join(MODELS)}; {path!r} holds {document['model']!r}, "
            f"written by vbagg {package}. Load it with that release or a later one."
        )
    return document


def _foreign(path: str) -> ValueError:
    return ValueError(f"`path` must be a model file that `save` wrote; {path!r} is something else.")


def _damaged(path: str, error: Exception) -> ValueError:
    reason = f"{type(error).__name__}: {error}"
    return ValueError(
        f"`path` must be a complete model file; {path!r} is truncated or damaged ({reason}). "
        "Copy it again, or save the model again."
    )


def _rebuild(document: dict[str, Any], members: Mapping[str, bytes]) -> Any:
    kind = document["model"]
    model_class = getattr(import_module(MODELS[kind]), kind)
    parameters, state = (
        {name: _decode(value, members) for name, value in document[section].items()}
        for section in ("parameters", "state")
    )
    model = model_class(**parameters)
    vars(model).update(dict.fromkeys(model_class._not_stored), **state)
    if not model.__sklearn_is_fitted__():
        raise ValueError("it lacks the fitted state")
    return model


def _encode(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """JSON form of a value; its arrays go to `arrays`, named after their place in the model."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.bool_ | np.number):
        return value.item()
    if isinstance(value, np.ndarray | jax.Array):
        return {"array": _keep(np.asarray(value), f"{place}.npy", arrays)}
    if isinstance(value, Kernel):
        return {"kernel": kernels.from_dict(value.to_dict()).to_dict()}  # refuses a kernel it could not read
    if isinstance(value, list | tuple):
        items = [_encode(item, f"{place}/{i}", arrays) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping):
        return {"mapping": _encode_all(value, place, arrays)}
    if hasattr(value, "iloc") and value.ndim == 1:
        series = {"labels": value.index.tolist(), "values": value.to_numpy()}
        return {"series": _encode_all(series, place, arrays)}
    kind = type(value).__name__
    if _class_of(kind) is not type(value) or not is_dataclass(value):
        raise TypeError(
            f"A model file holds numbers, text, arrays and vbagg's own classes; got {kind} at {place!r}. "
            "Replace it and fit again."
        )
    content = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return {kind: _encode_all(content, place, arrays)}


def _encode_all(values: Mapping[str, Any], place: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: _encode(value, f"{place}/{name}", arrays) for name, value in values.items()}


def _keep(array: np.ndarray, name: str, arrays: dict[str, np.ndarray]) -> str:
    if array.dtype.hasobject:
        raise TypeError(f"A model file holds arrays of numbers; got dtype {array.dtype} at {name!r}.")
    arrays[name] = array
    return name


def _decode(value: Any, members: Mapping[str, bytes]) -> Any:
    """Value from its JSON form."""
    if isinstance(value, list):
        return [_decode(item, members) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag == "array":
        return _array(content, members)
    if tag == "kernel":
        return kernels.from_dict(content)
    if tag == "tuple":
        return tuple(_decode(item, members) for item in content)
    decoded = {name: _decode(item, members) for name, item in content.items()}
    if tag == "mapping":
        return decoded
    if tag == "series":
        import pandas as pd

        return pd.Series(decoded["values"], index=decoded["labels"])
    kind = _class_of(tag)
    if kind is None:
        raise ValueError(f"it holds {tag!r}, which is none of vbagg's classes")
    return kind(**decoded)


def _array(name: str, members: Mapping[str, bytes]) -> np.ndarray:
    if name not in members:
        raise ValueError(f"it lacks {name!r}")
    array = np.load(BytesIO(members[name]), allow_pickle=False)
    if array.size > len(members[name]):  # items of no size take no place in a file
        raise ValueError(f"{name!r} claims {array.size:,} items in {len(members[name]):,} bytes")
    return array
