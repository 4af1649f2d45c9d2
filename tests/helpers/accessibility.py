"""What axe-core finds wrong with a page that is open in a browser."""

from pathlib import Path
from typing import Any

AXE = Path(__file__).parents[1] / "vendor" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")


def grave_faults(page: Any) -> list[str]:
    """The rules that are broken gravely, each with the elements that break it."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations)")
    return [
        f"{fault['id']}: {fault['help']} {[(node['target'], node['failureSummary']) for node in fault['nodes']][:4]}"
        for fault in found
        if fault["impact"] in GRAVE
    ]
