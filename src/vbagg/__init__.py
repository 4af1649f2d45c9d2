"""vbagg: fine-scale rates, with calibrated uncertainty, from outputs that were only observed as totals.

Public names in the order of the data flow; the heavy ones are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Bags": "vbagg.bags",
    "Landmarks": "vbagg.landmarks",
    "Prior": "vbagg.kernels",
    "Newton": "vbagg.inference",
    "Adam": "vbagg.inference",
    "Manifold": "vbagg.manifold",
    "VBAgg": "vbagg.models.vbagg",
    "Observations": "vbagg.models.observations",
    "Constant": "vbagg.models.constant",
    "BagPixel": "vbagg.models.bagpixel",
    "Nystrom": "vbagg.models.nystrom",
    "ManifoldNN": "vbagg.models.network",
    "BagGLM": "vbagg.models.glm",
    "load": "vbagg.io",
}
_MODULES = ("datasets", "errors", "geo", "kernels", "laws", "likelihoods", "metrics", "priors", "validate")

__all__ = [*_HOMES, *_MODULES]

if TYPE_CHECKING:
    from vbagg import (
        datasets as datasets,
    )
    from vbagg import (
        errors as errors,
    )
    from vbagg import (
        geo as geo,
    )
    from vbagg import (
        kernels as kernels,
    )
    from vbagg import (
        laws as laws,
    )
    from vbagg import (
        likelihoods as likelihoods,
    )
    from vbagg import (
        metrics as metrics,
    )
    from vbagg import (
        priors as priors,
    )
    from vbagg import (
        validate as validate,
    )
    from vbagg.bags import Bags as Bags
    from vbagg.inference import Adam as Adam
    from vbagg.inference import Newton as Newton
    from vbagg.io import load as load
    from vbagg.kernels import Prior as Prior
    from vbagg.landmarks import Landmarks as Landmarks
    from vbagg.manifold import Manifold as Manifold
    from vbagg.models.bagpixel import BagPixel as BagPixel
    from vbagg.models.constant import Constant as Constant
    from vbagg.models.glm import BagGLM as BagGLM
    from vbagg.models.network import ManifoldNN as ManifoldNN
    from vbagg.models.nystrom import Nystrom as Nystrom
    from vbagg.models.observations import Observations as Observations
    from vbagg.models.vbagg import VBAgg as VBAgg


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"vbagg.{name}")
    raise AttributeError(f"module 'vbagg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
