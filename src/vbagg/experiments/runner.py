"""Run an experiment: every finished task is on disk at once, and a run that was stopped goes on where it was."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vbagg.experiments.base import Experiment, Settings, Task
from vbagg.experiments.store import ERRORS, Store, claimed, load_rows, record_settings
from vbagg.experiments.watchers import Watcher, watcher
from vbagg.experiments.workers import outcomes

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Run", "load_rows", "open_run", "run_experiment"]


def run_experiment(
    experiment: Experiment,
    out: Path | str,
    settings: Settings,
    jobs: int = 1,
    progress: bool | Watcher | None = None,
) -> pd.DataFrame:
    """Run the tasks that ``out`` does not hold yet and return the table of all rows in it.

    A task that fails is written to ``errors.log`` and tried again by the next run; a warning says how many failed.

    Parameters
    ----------
    experiment
        What to run.
    out
        Folder of ``repetitions.csv``, ``settings.json`` and ``errors.log``. It may hold an earlier run of the same
        experiment with the same ``quick`` and options; other repetitions or methods are added to it.
    settings
        What the user asked for.
    jobs
        Number of processes; more than one are spawned, each with its share of the cores.
    progress
        True shows a bar in a terminal and a line per task elsewhere; a `Watcher` hears of each step.
    """
    with open_run(experiment, out, settings) as run:
        failed = run.execute(jobs, progress)
        if failed:
            warnings.warn(f"{len(failed)} of {len(run.tasks)} tasks failed; see {run.out / ERRORS}", stacklevel=2)
        return run.table()


@contextmanager
def open_run(experiment: Experiment, out: Path | str, settings: Settings) -> Iterator[Run]:
    """A run whose settings fit the experiment and the folder; ValueError says what does not."""
    experiment.check(settings)
    tasks = experiment.tasks(settings)
    _check_tasks(tasks)
    with claimed(Path(out), experiment, settings):
        yield Run(experiment, Path(out), settings, tasks, Store.open(Path(out), tasks))


@dataclass(frozen=True)
class Run:
    """An experiment with its folder, which no other run can write to."""

    experiment: Experiment
    out: Path
    settings: Settings
    tasks: Sequence[Task]
    store: Store

    def execute(self, jobs: int = 1, progress: bool | Watcher | None = None) -> list[Task]:
        """Run the waiting tasks; returns those that failed."""
        if jobs < 1:
            raise ValueError(f"`jobs` must be at least 1; got {jobs}.")
        waiting = self.store.waiting()
        record_settings(self.out, self.experiment, self.settings, jobs)
        watching = watcher(progress)
        watching.open(self.experiment.name, len(self.tasks), len(self.tasks) - len(waiting))
        failed = []
        try:
            with closing(outcomes(self.experiment, waiting, self.settings, jobs, watching.begun)) as ended:
                for outcome in ended:
                    if outcome.error is None:
                        self.store.add(outcome)
                    else:
                        self.store.log(outcome)
                        failed.append(outcome.task)
                    watching.ended(outcome)
        finally:
            watching.close()
        return failed

    def table(self) -> pd.DataFrame:
        """All rows of the folder, those of earlier runs too; empty if no task finished."""
        import pandas as pd

        return load_rows(self.out) if self.store.rows else pd.DataFrame()


def _check_tasks(tasks: Sequence[Task]) -> None:
    if not tasks:
        raise ValueError("These settings leave no tasks to run.")
    for task in tasks:
        if list(task) != list(tasks[0]):
            raise ValueError(f"Tasks must have the same keys in the same order; got {tasks[0]!r} and {task!r}.")
    twice = [task for task, times in Counter(tasks).items() if times > 1]
    if twice:
        raise ValueError(f"Tasks must differ from each other; got {twice[0]!r} twice.")
