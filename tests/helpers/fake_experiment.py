"""An experiment without models, for the tests of the machinery; workers can import it."""

import os
import time
from pathlib import Path
from typing import ClassVar

from vbagg.experiments.base import Experiment, Settings, Task
from vbagg.experiments.tables import write_text


class FakeExperiment(Experiment):
    name = "fake"
    title = "Nothing is fitted"
    methods = ("exact", "rough", "constant")
    options = ("scale", "bag_mean")

    # what happens to the tasks with this text
    interrupt: ClassVar[str] = ""
    fail: ClassVar[str] = ""
    die: ClassVar[str] = ""

    def __init__(self) -> None:
        self.log: Path | None = None
        self.seconds = 0.0

    def tasks(self, settings: Settings) -> list[Task]:
        return [
            Task(bags=bags, repetition=repetition, method=method)
            for bags in (10, 25)
            for repetition in range(settings.repetitions_or(full=2, quick=1))
            for method in self.chosen_methods(settings)
        ]

    def run(self, task: Task, settings: Settings) -> dict[str, float | str]:
        if self.log is not None:
            with self.log.open("a") as log:
                log.write(f"{task}\n")
        time.sleep(self.seconds)
        if self.interrupt and self.interrupt in str(task):
            raise KeyboardInterrupt
        if self.fail and self.fail in str(task):
            raise ArithmeticError(f"{task} cannot be done")
        if self.die and self.die in str(task):
            os._exit(3)
        scale = float(settings.options.get("scale", 1.0))
        error = scale * (0.1 + 1 / task["bags"] + 0.01 * task["repetition"]) * len(task["method"])
        scores: dict[str, float | str] = {"error": error, "chosen": f'{task["method"]}, the "first"'}
        return scores | ({"coverage_90": 0.9 - error / 10} if task["method"] != "constant" else {})

    def report(self, table, folder, settings):
        return [write_text(folder / "report.md", f"{len(table)} rows\n")]


class DyingExperiment(FakeExperiment):
    """Its classes are looked up by workers, where changes of class attributes do not arrive."""

    fail = "bags=10 repetition=0 method=rough"
    die = "bags=25 repetition=0 method=exact"


class ThreadsExperiment(FakeExperiment):
    def run(self, task, settings):
        return {"pool": os.environ["PJRT_NPROC"], "openmp": os.environ["OMP_NUM_THREADS"]}


class OtherExperiment(FakeExperiment):
    name = "other"


class OddScores(FakeExperiment):
    def run(self, task, settings):
        return {"exact": {"wall_seconds": 1.0}, "rough": {"repetition": 1.0}, "constant": {"error": [1.0]}}[
            task["method"]
        ]
