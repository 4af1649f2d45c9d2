"""Tests lie where the code lies that they test."""

from pathlib import Path

import pytest

import vbagg

TESTS = Path(__file__).parent
SOURCE = Path(vbagg.__file__).parent
HELPERS = "helpers"
FOLDERS = sorted(path.name for path in TESTS.iterdir() if any(path.glob("*.py")) and path.name != HELPERS)
PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def names_of_tests(folder: Path) -> set[str]:
    return {path.stem.removeprefix("test_") for path in folder.glob("test_*.py")}


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")}


def test_folders_of_tests_are_packages():
    assert set(FOLDERS) == PACKAGES


def test_what_lies_at_the_top_is_not_of_a_package():
    inside = PACKAGES.union(*(modules(SOURCE / name) for name in PACKAGES)) - modules(SOURCE)
    assert names_of_tests(TESTS) & inside == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_of_a_folder_use_its_package(folder):
    for path in (TESTS / folder).glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        imported = (f"vbagg.{folder}", f"from vbagg import {folder}")
        assert any(words in text for words in imported), f"{path.name} uses nothing of vbagg.{folder}."


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_named_after_one_module_is_not_of_another_package(folder):
    """`tests/laws/test_folds.py` would be looked for in `tests/validate`."""
    elsewhere = set[str]().union(*(modules(SOURCE / name) for name in PACKAGES - {folder}))
    assert names_of_tests(TESTS / folder) & (elsewhere - modules(SOURCE / folder)) == set()
