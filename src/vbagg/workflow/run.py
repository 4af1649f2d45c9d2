"""A run and its stages: each is skipped where its results are there for the same inputs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbagg.workflow.folder import SETTINGS, RunFolder, fingerprint
from vbagg.workflow.results import read_findings, read_validation
from vbagg.workflow.settings import Settings, write_settings

if TYPE_CHECKING:
    from vbagg.doctor import Findings
    from vbagg.geo.prepare import Prepared
    from vbagg.models.vbagg import VBAgg
    from vbagg.validate import Validation

Tell = Callable[..., None]
"""Takes what is being done in a few words and, if known, the share of the stage that is done."""


@dataclass(frozen=True)
class Run:
    """Settings, the folder they are carried out in, and whom to tell of progress."""

    settings: Settings
    folder: RunFolder
    tell: Tell = lambda text, share=None: None
    command: str = ""

    def findings(self) -> Findings | None:
        """What the check found, None if it was left out."""
        return read_findings(self.folder["check"])

    def prepared(self) -> Prepared:
        """Polygons, pixels and aligned layers."""
        from vbagg.geo.prepare import Prepared

        return Prepared.load(self.folder["prepared"])

    def model(self, response: str | None = None) -> VBAgg:
        """The model of a response, by default the first."""
        import vbagg

        return vbagg.load(self.folder["models"] / f"{self._named(response)}.vbagg")

    def maps(self, response: str | None = None) -> Path:
        """Folder with the maps and tables of a response."""
        return self.folder["maps"] / self._named(response)

    def validation(self, response: str | None = None) -> Validation | None:
        """How polygons that were left out are predicted, None if validation was left out."""
        return read_validation(self.folder["validation"] / self._named(response))

    def pages(self) -> list[Path]:
        """The report, a page for each response."""
        return sorted(self.folder["report"].glob("*.html"))

    def _named(self, response: str | None) -> str:
        return self.settings.data.response[0] if response is None else response


@dataclass(frozen=True)
class Stage:
    """One stage: what it does, and what its results depend on.

    Attributes
    ----------
    name
        Its folder.
    verb
        The command for it alone.
    work
        Takes the run and the folder to write into.
    settings
        Sections of the settings, or single keys as `section.key`.
    after
        Stages that must be finished.
    uses
        Stages whose results are used where they are there.
    """

    name: str
    verb: str
    work: Callable[[Run, Path], None]
    settings: tuple[str, ...]
    after: tuple[Stage, ...] = ()
    uses: tuple[Stage, ...] = ()


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
        if not run.folder.has_results:
            run.folder.forget()
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
    parts: dict[str, Any] = {}
    for name in stage.settings:
        section, _, key = name.partition(".")
        parts[name] = table[section][key] if key else table[section]
    parts["after"] = [run.folder.fingerprint(earlier.name) for earlier in (*stage.after, *stage.uses)]
    parts["version"] = vbagg.__version__
    return fingerprint(parts)
