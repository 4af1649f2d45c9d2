"""The paper's experiments, one command each: ``vbagg experiment NAME``.

An experiment lists its tasks (one method on one data set), runs one of them, and reports from the table of all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vbagg.errors import unknown_name

if TYPE_CHECKING:
    from vbagg.experiments.base import Experiment

EXPERIMENTS: dict[str, str] = {
    "swiss-bags": "vbagg.experiments.swiss:SwissBags",
    "swiss-individuals": "vbagg.experiments.swiss:SwissIndividuals",
    "swiss-normal-bags": "vbagg.experiments.swiss:SwissNormalBags",
    "swiss-normal-individuals": "vbagg.experiments.swiss:SwissNormalIndividuals",
    "elevators": "vbagg.experiments.elevators:Elevators",
    "malaria": "vbagg.experiments.malaria:Malaria",
}


def get_experiment(name: str) -> Experiment:
    """The experiment called ``name``; its module is imported now."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    module, _, class_name = EXPERIMENTS[name].partition(":")
    return getattr(import_module(module), class_name)()
