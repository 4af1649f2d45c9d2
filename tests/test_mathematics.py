"""The equations and sections that the code cites are those of `docs/mathematics.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vbagg

SOURCE = Path(vbagg.__file__).parent
PAGE = Path(__file__).parents[1] / "docs/mathematics.md"


@pytest.mark.parametrize(
    ("cited", "written"), [(r"MATH \((\d+)\)", r" \((\d+)\)$"), (r"sections? (\d+)", r"^## (\d+)\.")]
)
def test_what_the_code_cites_is_written(cited, written):
    there = set(re.findall(written, PAGE.read_text(), re.MULTILINE))
    asked = {number for path in SOURCE.rglob("*.py") for number in re.findall(cited, path.read_text())}
    assert asked
    assert asked <= there
