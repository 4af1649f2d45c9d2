"""The reference in `docs` is that of the commands."""

from pathlib import Path

from vbagg.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"


def test_reference_is_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert text == reference(), "Run `python -m vbagg.cli.reference > docs/reference.md`."
    for name in ("check", "run", "prepare", "fit", "predict", "validate", "report", "demo", "experiment"):
        assert f"## vbagg {name}\n" in text
