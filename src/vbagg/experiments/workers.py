"""Tasks in this process or in workers: an outcome for each, whatever happens to it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vbagg.experiments.base import Experiment, Scores, Settings, Task
from vbagg.experiments.store import BOOKKEEPING, now
from vbagg.headroom import resident_bytes
from vbagg.threads import COUNTS, processors


@dataclass(frozen=True)
class Outcome:
    """A task's scores, or the text of its error, with its seconds and start."""

    task: Task
    scores: Scores | None
    error: str | None
    wall_seconds: float
    cpu_seconds: float
    started: str


def attempt(experiment: Experiment, task: Task, settings: Settings) -> Outcome:
    """Run one task; an error becomes part of the outcome."""
    started, wall, cpu = now(), time.perf_counter(), time.process_time()
    scores, error = None, None
    try:
        scores = _plain(experiment.run(task, settings), task)
    except (Exception, SystemExit):
        error = traceback.format_exc()
    _forget_compiled_functions()
    return Outcome(task, scores, error, time.perf_counter() - wall, time.process_time() - cpu, started)


def _forget_compiled_functions(limit: float = 3e9) -> None:
    """Drop what JAX compiled, which adds up over data sets of many shapes, when the process has grown large."""
    if "jax" in sys.modules and resident_bytes() > limit:
        sys.modules["jax"].clear_caches()


def outcomes(
    experiment: Experiment, tasks: Sequence[Task], settings: Settings, jobs: int, begun: Callable[[Task], None]
) -> Generator[Outcome]:
    """Outcomes in the order in which tasks end; ``begun`` hears of each that starts."""
    if jobs > 1 and len(tasks) > 1:
        yield from _in_workers(experiment, tasks, settings, min(jobs, len(tasks)), begun)
        return
    for task in tasks:
        begun(task)
        yield attempt(experiment, task, settings)


def _in_workers(
    experiment: Experiment, tasks: Sequence[Task], settings: Settings, jobs: int, begun: Callable[[Task], None]
) -> Generator[Outcome]:
    waiting = list(tasks)
    running: dict[Future[Outcome], tuple[_Worker, Task]] = {}

    def feed(worker: _Worker) -> None:
        if waiting:
            task = _next_task(waiting, experiment, worker, [other for other, _ in running.values()])
            worker.dataset = experiment.dataset(task)
            begun(task)
            running[worker.submit(experiment, task, settings)] = worker, task

    with _thread_share(jobs):
        workers = [_Worker() for _ in range(jobs)]
        try:
            for worker in workers:
                feed(worker)
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    worker, task = running.pop(future)
                    yield _outcome(future, task)
                    feed(worker)
        except BaseException:
            for worker in workers:
                worker.kill()
            raise
        finally:
            for worker in workers:
                worker.pool.shutdown()


class _Worker:
    """One spawned process (fork after JAX hangs), so that a process that dies takes one known task with it."""

    def __init__(self) -> None:
        self.pool = self._pool()
        self.dataset: Hashable = None

    def submit(self, experiment: Experiment, task: Task, settings: Settings) -> Future[Outcome]:
        try:
            return self.pool.submit(attempt, experiment, task, settings)
        except BrokenProcessPool:  # it died with the task before
            self.pool.shutdown()
            self.pool = self._pool()
            return self.pool.submit(attempt, experiment, task, settings)

    def kill(self) -> None:
        # the processes have a public name only from Python 3.14 on
        for process in list((self.pool._processes or {}).values()):
            process.kill()

    @staticmethod
    def _pool() -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(max_workers=1, mp_context=spawn, initializer=_follow_parent)


def _outcome(future: Future[Outcome], task: Task) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        reason = (
            "The process of this task died: out of memory, or killed, or the calling script runs at import "
            "(it needs `if __name__ == '__main__':`).\n"
        )
    except Exception:  # the experiment or its scores could not be sent between processes
        reason = traceback.format_exc()
    return Outcome(task, None, reason, float("nan"), float("nan"), now())


def _next_task(waiting: list[Task], experiment: Experiment, worker: _Worker, others: list[_Worker]) -> Task:
    """Take the next task of the worker's data set, else of one that no other worker has, else any."""
    taken = {other.dataset for other in others}

    def rank(at: int) -> tuple[bool, bool, int]:
        dataset = experiment.dataset(waiting[at])
        return dataset != worker.dataset, dataset in taken, at

    return waiting.pop(min(range(len(waiting)), key=rank))


@contextmanager
def _thread_share(jobs: int) -> Iterator[None]:
    """Give processes that start meanwhile their share of the cores; numeric libraries read it when imported."""
    share = str(max(1, processors() // jobs))
    before = {name: os.environ.get(name) for name in COUNTS}
    os.environ.update(dict.fromkeys(COUNTS, share))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _follow_parent() -> None:
    """Leave the keyboard's interrupt to the parent, and end when the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _plain(scores: Any, task: Task) -> Scores:
    """Scores as Python's numbers and texts, under names that no other column has."""
    plain: Scores = {}
    for name, value in scores.items():
        if name in task or name in BOOKKEEPING:
            raise ValueError(f"A score must not be called {name!r}: this column is a key or kept by the runner.")
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            value = value.item()
        if not isinstance(value, int | float | str):
            raise TypeError(f"Score {name!r} must be a number or a text; got {type(value).__name__}.")
        plain[name] = int(value) if isinstance(value, bool) else value
    return plain
