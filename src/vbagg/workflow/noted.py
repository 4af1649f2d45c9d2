"""Settings that note which of them are read: what a stage has read is what its results depend on."""

from __future__ import annotations

from typing import Any

from vbagg.workflow.record import plain
from vbagg.workflow.settings import Section, Settings, sections_in


class NotedSettings:
    """Stands for `Settings` while a stage works; `read` holds what was read so far, by `section.key`.

    Files are noted as they are when a stage first asks for them, so that one that changes under a stage's hands is seen
    as changed afterwards.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._settings, name)
        sections = sections_in(self._settings)
        if name in sections:
            return _NotedSection(name, found, self.read)
        # a method of all settings reads them all
        for section in sections:
            getattr(self, section).note_all()
        return found


class _NotedSection:
    """A section of the settings."""

    def __init__(self, name: str, section: Section, read: dict[str, Any]) -> None:
        self._name, self._section, self._read = name, section, read

    def __getattr__(self, key: str) -> Any:
        found = getattr(self._section, key)
        if key in type(self._section).model_fields:
            name = f"{self._name}.{key}"
            if name not in self._read:
                self._read[name] = plain(found)
        else:
            self.note_all()
        return found

    def note_all(self) -> None:
        """Take every key as read."""
        for key in type(self._section).model_fields:
            getattr(self, key)
