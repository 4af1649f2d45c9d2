"""A run and its stages: each is skipped where its results are there for the same inputs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbagg.workflow.folder import SETTINGS, RunFolder, fingerprint
from vbagg.workflow.settings import Settings, write_settings

if TYPE_CHECKING:
    from vbagg.geo.prepare import Prepared
    from vbagg.models.vbagg import VBAgg

Tell = Callable[..., None]
"""Takes what is being done in a few words and, if known, the share of the stage that is done."""


@dataclass(frozen=True)
class Run:
    """Settings, the folder they are carried out in, and whom to tell of progress."""

    settings: Settings
    folder: RunFolder
    tell: Tell = lambda text, share=None: None
    command: str = ""

    def prepared(self) -> Prepared:
        """What the first stage wrote."""
        from vbagg.geo.prepare import Prepared

        return Prepared.load(self.folder["prepared"])

    def model(self, response: str) -> VBAgg:
        """The model of a response."""
        import vbagg

        return vbagg.load(self.folder["models"] / f"{response}.vbagg")


@dataclass(frozen=True)
class Stage:
    """One stage: what it does, and what its results depend on."""

    name: str
    verb: str
    work: Callable[[Run, Path], None]
    sections: tuple[str, ...]
    after: tuple[Stage, ...] = ()


def carry_out(run: Run, stage: Stage, force: bool = False) -> bool:
    """Carry out a stage unless its results are there for the same inputs; whether it was needed."""
    mark = _fingerprint(run, stage)
    if not force and run.folder.fingerprint(stage.name) == mark:
        run.folder.log(f"{stage.name}: nothing changed")
        return False
    began = time.perf_counter()
    run.folder.log(f"{stage.name}: begins")
    try:
        with run.folder.writing(stage.name, mark) as fresh:
            stage.work(run, fresh)
    except BaseException as error:
        run.folder.log(f"{stage.name}: stopped, {type(error).__name__}: {error}")
        raise
    write_settings(run.settings, run.folder.path / SETTINGS)
    run.folder.log(f"{stage.name}: done in {time.perf_counter() - began:.1f} s")
    return True


def require(run: Run, stage: Stage) -> None:
    """Refuse to begin a stage whose forerunners are missing."""
    for earlier in stage.after:
        if run.folder.fingerprint(earlier.name) is None:
            raise ValueError(
                f"{run.folder.path} has no {earlier.name} yet."
                f" Run `vbagg {earlier.verb} --out {run.folder.path}` first, or `vbagg run` for all stages."
            )


def _fingerprint(run: Run, stage: Stage) -> str:
    import vbagg

    table = run.settings.model_dump()
    parts: dict[str, Any] = {name: table[name] for name in stage.sections}
    parts["after"] = [run.folder.fingerprint(earlier.name) for earlier in stage.after]
    parts["version"] = vbagg.__version__
    return fingerprint(parts)
