"""Dask: objects that live on the workers of a cluster, and workers on this machine.

What a worker holds is made of where its data lie and of arguments that are sent to it, so that Dask makes it anew on
another worker when one dies: the result is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any
from uuid import uuid4

import jax
import numpy as np

from vbagg.bags import Bags
from vbagg.chunks import block_edges, block_numbers
from vbagg.errors import ClusterError
from vbagg.framed import FramedRows
from vbagg.headroom import within
from vbagg.held import Division, Held, itself
from vbagg.models.frame import drop_inert
from vbagg.portions import Outline, Portion, Portions, StoredPortion, bags_of, outline_of, portion_of
from vbagg.stored import DistantBags
from vbagg.threads import COUNTS, at_most, one_blas_thread, processors

PACKAGES = ("vbagg", "jax", "numpy", "scipy", "dask", "distributed")
"""Whose versions must be the same on workers."""
SECONDS_TO_ANSWER = 10
"""That a scheduler has at most when it is first spoken to."""
AHEAD = 2
"""Pieces of work that each worker has, or has done, before they are asked for."""
ALL_IN_MEMORY = {f"distributed.worker.memory.{level}": False for level in ("target", "spill", "pause")}
"""What a fit holds is asked for in every pass: a worker that wrote it to disk, or waited for room, would never end."""
EXTRA = "`pip install vbagg[cluster]`"


class OnWorkers(Held[Any]):
    """Objects on workers, or small ones here that say where to find them.

    Parameters
    ----------
    client
        A `distributed.Client`.
    things
        Futures, or objects that are sent along.
    """

    def __init__(self, client: Any, things: Sequence[Any]) -> None:
        self.client, self.things = client, list(things)

    def __len__(self) -> int:
        return len(self.things)

    def each(self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> list[Any]:  # noqa: D102
        futures = self._submitted(function, arguments, own)
        with clear_errors(self.client):
            return self.client.gather(futures)

    def made(self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> OnWorkers:  # noqa: D102
        from distributed import wait

        futures = self._submitted(function, arguments, own)
        with clear_errors(self.client):
            wait(futures)
            for future in futures:
                if future.status == "error":
                    future.result()
        return OnWorkers(self.client, futures)

    def hold(self, objects: Sequence[Any]) -> OnWorkers:
        """Other objects, which go through the scheduler: it sends them again when a worker dies."""
        return OnWorkers(self.client, objects)

    def spans(self, block: np.ndarray) -> list[tuple[int, int]]:
        """Runs of as many blocks for each worker, or of one less."""
        groups = np.array_split(np.arange(block.max() + 1), min(self.n_workers, block.max() + 1))
        edges = [*(int(np.searchsorted(block, group[0])) for group in groups), len(block)]
        return list(pairwise(edges))

    @property
    def n_workers(self) -> int:
        """How many there are now."""
        with clear_errors(self.client):
            return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def in_order(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:  # noqa: D102
        (thing,) = self.things
        waiting, ahead = iter(items), AHEAD * max(1, self.n_workers)
        with clear_errors(self.client):
            begun = deque(self._begun(function, thing, item) for item in islice(waiting, ahead))
            while begun:
                result = begun.popleft().result()
                begun.extend(self._begun(function, thing, item) for item in islice(waiting, 1))
                yield result

    def _begun(self, function: Callable[..., Any], thing: Any, item: Any) -> Any:
        return self.client.submit(on_worker, function, thing, item, pure=False)

    def ended(self, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Items and `function(object, item)`, with the one object that there is, in the order in which they end."""
        from distributed import as_completed

        (thing,) = self.things
        with clear_errors(self.client):
            futures = {self._begun(function, thing, item): item for item in items}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _submitted(self, function: Any, arguments: tuple[Any, ...], own: Sequence[Any] | None) -> list[Any]:
        last = [()] * len(self) if own is None else [(one,) for one in own]
        with clear_errors(self.client):
            return [
                self.client.submit(on_worker, function, thing, *arguments, *more, key=f"vbagg-{uuid4().hex}")
                for thing, more in zip(self.things, last, strict=True)
            ]


def on_worker(function: Callable[..., Any], thing: Any, *arguments: Any) -> Any:
    """Run a function as a fit does, with the threads that the worker has."""
    from distributed import get_worker

    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    with at_most(worker.state.nthreads), within(limit), jax.enable_x64(True), one_blas_thread():
        return function(thing, *arguments)


def portions_on(client: Any, bags: Bags | DistantBags, offset: Any = None) -> Portions:
    """Bags divided among the workers of a cluster: one portion each, of about as many rows. One block stays here."""
    workers = workers_of(client)
    if isinstance(bags, DistantBags):
        if offset is not None:
            raise ValueError("`offset` goes with bags in this process, not with stored ones or data frames of Dask.")
        block = block_numbers(bags.sizes)
        if not block[-1]:
            here = bags_of(bags.rows().read())
            return Portions.of(here, np.zeros(here.n_individuals))
        held = workers.hold([_source(client, bags, _edges(block, *span)) for span in workers.spans(block)])
        return _joined(held, block)
    used, rows_offset = drop_inert(bags, offset)
    block = block_numbers(used.sizes)
    if not block[-1]:
        return Portions.of(used, rows_offset)
    parts = [_cut(used, rows_offset, _edges(block, *span)) for span in workers.spans(block)]
    return _joined(workers.hold(parts).made(itself), block)


def _edges(block: np.ndarray, first: int, last: int) -> list[int]:
    """Bags at which the blocks of a portion begin, and the one after its last."""
    return [first + at for at in block_edges(block[first:last])]


def _source(client: Any, bags: DistantBags, edges: list[int]) -> Any:
    """A portion in files, or one that workers make of the partitions of a data frame."""
    rows = bags.rows(edges[0], edges[-1])
    if not isinstance(rows, FramedRows):
        return StoredPortion(tuple(bags.rows(*span) for span in pairwise(edges)))
    from dask.delayed import delayed

    return client.compute(delayed(portion_of)(rows.delayed(), _within(edges)))


def _cut(bags: Bags, offset: np.ndarray, edges: list[int]) -> Portion:
    first, last = edges[0], edges[-1]
    return Portion(bags[first:last], offset[bags.starts[first] : bags.starts[last]], _within(edges))


def _within(edges: list[int]) -> tuple[int, ...]:
    """Edges counted from the first of them."""
    return tuple(edge - edges[0] for edge in edges)


def workers_of(client: Any, packages: Sequence[str] = ()) -> OnWorkers:
    """The workers of a cluster, which hold nothing yet and have the same versions of packages as this process."""
    require_client(client)
    require_same_versions(client, packages)
    return OnWorkers(client, ())


def _joined(held: OnWorkers, block: np.ndarray) -> Portions:
    """Portions whose bags follow each other."""
    outlines = held.each(outline_of)
    outline = Outline.joined(outlines)
    ends = np.cumsum([len(own) for own in outlines])
    positions = tuple(np.arange(end - len(own), end) for own, end in zip(outlines, ends, strict=True))
    return Portions(held, Division(positions), outline, block)


def require_client(client: Any) -> None:
    """Refuse anything but a connected client of Dask."""
    distributed = require_dask("`client`")
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise TypeError(f"`client` must be a distributed.Client that waits for results; got {type(client).__name__}.")
    if client.status != "running":
        raise ClusterError(
            f"`client` must be connected to a scheduler; its status is {client.status!r}. Make a new one."
        )
    with clear_errors(client):
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise ClusterError(f"The cluster at {client.scheduler.address} has no workers. Add some first.")


def memory_of(client: Any) -> list[float]:
    """Bytes that each worker may use, 0 for one without a limit."""
    require_client(client)
    with clear_errors(client):
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return [float(worker["memory_limit"] or 0) for worker in workers]


def require_dask(what: str) -> Any:
    """The package, or an error that says what needs it."""
    try:
        import distributed
    except ImportError:
        raise ImportError(f"{what} needs Dask, which is not installed: {EXTRA}.") from None
    return distributed


def require_same_versions(client: Any, more: Sequence[str] = ()) -> None:
    """Refuse workers that have other versions of packages than this process, or of Python; `more` packages count."""
    own = _versions(more)
    with clear_errors(client):
        found = client.run(_versions, more)
    for worker, versions in found.items():
        other = [f"{name} {versions[name]} instead of {own[name]}" for name in own if versions[name] != own[name]]
        if other:
            raise ClusterError(
                f"Workers must have the same packages as this process; {worker} has {', '.join(other)}."
                " Install the same environment on all of them."
            )


def _versions(more: Sequence[str] = ()) -> dict[str, str]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    def found(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "none"

    return {"Python": platform.python_version()} | {name: found(name) for name in (*PACKAGES, *more)}


@contextmanager
def clear_errors(client: Any) -> Iterator[None]:
    """Say in words that a cluster is gone or that workers keep dying."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"The same piece of work was on several workers when they died (the last: {error.last_worker}). Most likely"
            " they have too little memory: use more workers, or workers with more memory."
        ) from error
    except Exception as error:
        if client.status == "running" and not isinstance(error, CancelledError | CommClosedError):
            raise
        raise ClusterError(
            f"The connection to the scheduler was lost ({type(error).__name__}). Start the cluster again and"
            " run the same command: what is finished is kept."
        ) from error


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address."""
    distributed = require_dask("A cluster")
    try:
        client = distributed.Client(address, timeout=SECONDS_TO_ANSWER)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address!r} ({type(error).__name__}). Start one with `dask scheduler`, or"
            " correct the address, such as tcp://host:8786."
        ) from None
    with client:
        yield client


@contextmanager
def local_cluster(workers: int, threads: int | None = None, memory: str | float = "auto") -> Iterator[Any]:
    """A client of new workers on this machine, which share its processors evenly and are gone afterwards.

    Parameters
    ----------
    workers
        Number of processes.
    threads
        Of each of them; None: as many as there are processors, divided by the number of workers.
    memory
        Bytes of each of them, beyond which Dask ends it.
    """
    distributed = require_dask("A cluster on this machine")
    import dask

    share = threads or max(1, processors() // workers)
    options = {
        "distributed.nanny.pre-spawn-environ": dict.fromkeys(COUNTS, share),
        "distributed.worker.multiprocessing-method": "spawn",  # a fork after JAX hangs
        "distributed.worker.daemon": False,
    } | ALL_IN_MEMORY
    with (
        dask.config.set(options),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=share,
            memory_limit=memory,
            processes=True,
            scheduler_kwargs={"dashboard": False},
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
