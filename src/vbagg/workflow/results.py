"""Results of the check and of a validation as files: tables for people, and all of it for the report."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import geopandas as gpd
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from vbagg.doctor import Findings
    from vbagg.geo.display import Frame
    from vbagg.geo.ratio import Change
    from vbagg.validate import Nested, Recovery, Validation, Verdict

FINDINGS, FOLDS, VERDICT, WORD = "findings.json", "folds.json", "verdict.txt", "verdict.json"
NESTED, RECOVERY = "nested.json", "recovery.json"
RATES = (
    *("observed", "observed_rate", "fitted", "fitted_lower", "fitted_upper"),
    *("rate", "predicted_lower", "predicted_upper"),
    *("effect", "effect_lower", "effect_upper", "from_others", "from_others_lower", "from_others_upper", "chance"),
    "stands_out",
)
AREAS = ("covered", "rate", "rate_lower", "rate_upper")
CHANGE = "with_points.json"
"""What points change in the maps."""
ABOVE = "people_above.csv"
"""How many people live above thresholds."""
BOUNDS = ("observed_lower", "observed_upper")


@contextmanager
def written_by(verb: str, path: Path) -> Iterator[None]:
    """Read a file of results; one that the command did not write leads to a message that names both."""
    try:
        yield
    except Exception as error:  # whatever other content leads to
        reason = " ".join(str(error).split()).rstrip(". ") or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as what `vbagg {verb}` wrote: {reason}. Do it again: `vbagg {verb} --force`."
        ) from error


def write_findings(findings: Findings, folder: Path) -> None:
    """Write what the check found, for programs and for people."""
    (folder / FINDINGS).write_text(findings.to_json() + "\n", encoding="utf-8")
    (folder / "findings.txt").write_text(f"{findings}\n", encoding="utf-8")


def read_findings(folder: Path) -> Findings | None:
    """What `write_findings` wrote, None if nothing."""
    from vbagg.doctor import Findings

    path = folder / FINDINGS
    if not path.exists():
        return None
    with written_by("check", path):
        findings = Findings.from_json(path.read_text(encoding="utf-8"))
        str(findings)  # what cannot be told is none of ours
        return findings


def read_polygon_table(path: Path, id: str, exposure: str, told: Sequence[str] = ()) -> gpd.GeoDataFrame:
    """Polygons with the totals and rates that a model has for them, and columns with what was `told` of these."""
    import geopandas as gpd
    import pandas as pd

    with written_by("predict", path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of GDAL, about files that it can hardly read
        table = gpd.read_file(path)
        for name in (id, exposure, *RATES, *told):
            if name not in table or (name != id and not pd.api.types.is_numeric_dtype(table[name])):
                raise ValueError(f"it must have a column {name!r}, of numbers unless it is the id")
        _require_states(table)
        if table.geometry.isna().any() or not set(table.geom_type) <= {"Polygon", "MultiPolygon"}:
            raise ValueError("it must hold polygons")
    return table


def read_areas(path: Path, exposure: str) -> gpd.GeoDataFrame:
    """Other areas with the totals and rates that a model has for them."""
    import geopandas as gpd
    import pandas as pd

    with written_by("predict", path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of GDAL, about files that it can hardly read
        table = gpd.read_file(path)
        for name in (exposure, *AREAS):
            if name not in table or not pd.api.types.is_numeric_dtype(table[name]):
                raise ValueError(f"it must have a column {name!r} of numbers")
    return table


def _require_states(table: gpd.GeoDataFrame) -> None:
    """Raise unless the table says of every total that it lacks what is known of it."""
    import pandas as pd

    from vbagg.geo.observed_totals import MISSING, STATE, SUPPRESSED

    gaps = table[table["observed"].isna()]
    if gaps.empty:
        return
    if STATE not in table or not gaps[STATE].isin([MISSING, SUPPRESSED]).all():
        raise ValueError(f"it must say in the column {STATE!r} why a total is not there")
    for name in BOUNDS:
        if name not in table or not pd.api.types.is_numeric_dtype(table[name]):
            raise ValueError(f"it must have a column {name!r} of numbers, since some totals are not there")


def read_map(path: Path, frame: Frame) -> tuple[NDArray[np.float32], dict[str, str]]:
    """A map as the report shows it, and its tags."""
    from vbagg.geo.display import shown

    with written_by("predict", path):
        values, tags = shown(path, frame)
        if missing := {"title", "units"} - set(tags):
            raise ValueError(f"it must say its {' and '.join(sorted(missing))}")
    return values, tags


def read_change(maps: Path) -> Change:
    """What points change in the maps of a folder."""
    from vbagg.geo.ratio import Change

    with written_by("predict", maps / CHANGE):
        told = json.loads((maps / CHANGE).read_text(encoding="utf-8"))
        change = Change(**{name: float(value) for name, value in told.items()})
        if not all(0 <= value < float("inf") for value in change.document().values()):
            raise ValueError("it must hold numbers that are not negative")
        return change


def write_people_above(table: pd.DataFrame, folder: Path) -> None:
    """Write how many people live above thresholds."""
    table.to_csv(folder / ABOVE, index=False, float_format="%.10g")


def read_people_above(maps: Path) -> pd.DataFrame | None:
    """What `write_people_above` wrote, None if nothing."""
    import numpy as np
    import pandas as pd

    from vbagg.geo.above import COLUMNS, WORDS

    path = maps / ABOVE
    if not path.exists():
        return None
    with written_by("predict", path):
        table = pd.read_csv(path)
        numbers = [name for name in COLUMNS if name not in WORDS]
        if list(table) != list(COLUMNS) or table.empty:
            raise ValueError(f"it must have the columns {', '.join(COLUMNS)}, and rows")
        values = table[numbers].to_numpy(np.float64)
        if not (np.isfinite(values).all() and (np.diff(values[:, 0]) > 0).all() and (values[:, 1:] >= 0).all()):
            raise ValueError("it must hold finite numbers, thresholds in ascending order, and nothing negative besides")
    return table.astype(dict.fromkeys(numbers, np.float64))


def write_validation(validation: Validation, folder: Path, unit: str) -> None:
    """Write scores, comparisons and every left-out polygon as CSV, and the verdict as text."""
    folder.mkdir(parents=True)
    (folder / FOLDS).write_text(
        json.dumps({"per": validation.per, "folds": [json.loads(fold.to_json()) for fold in validation.folds]}),
        encoding="utf-8",
    )
    validation.table.to_csv(folder / "polygons.csv", index=False)
    validation.scores().to_csv(folder / "scores.csv")
    validation.coverage().to_csv(folder / "coverage.csv", index=False)
    validation.compare().to_csv(folder / "comparison.csv")
    if validation.nested is not None:
        (folder / NESTED).write_text(json.dumps(validation.nested.document()), encoding="utf-8")
        validation.nested.scales().to_csv(folder / "scales.csv", index=False)
    if validation.recovery is not None:
        (folder / RECOVERY).write_text(validation.recovery.to_json() + "\n", encoding="utf-8")
        validation.recovery.by_bag().to_csv(folder / "recovery.csv", index=False)
    verdict = validation.verdict("districts")
    (folder / WORD).write_text(json.dumps(verdict.document(), indent=1), encoding="utf-8")
    (folder / VERDICT).write_text(validation.summary("polygons", unit=unit) + "\n", encoding="utf-8")


def read_verdict(folder: Path) -> str:
    """The verdict that `write_validation` wrote."""
    with written_by("validate", folder / VERDICT):
        return (folder / VERDICT).read_text(encoding="utf-8").strip()


def read_nested(folder: Path) -> Nested | None:
    """What fits to larger areas said, None if there were none."""
    if not (folder / NESTED).exists():
        return None
    from vbagg.validate import Nested

    with written_by("validate", folder / NESTED):
        nested = Nested.from_document(json.loads((folder / NESTED).read_text(encoding="utf-8")))
        nested.scales()
        return nested


def read_judgement(folder: Path) -> Verdict | None:
    """How far the map can be relied on, in a word and with reasons; None if nobody has looked."""
    path = folder / WORD
    if not path.exists():
        return None
    from vbagg.validate import Verdict

    with written_by("validate", path):
        return Verdict.from_document(json.loads(path.read_text(encoding="utf-8")))


def read_validation(folder: Path) -> Validation | None:
    """What `write_validation` wrote, None if nothing."""
    if not (folder / FOLDS).exists():
        return None
    from vbagg.validate import FoldResult, Validation

    with written_by("validate", folder / FOLDS):
        document = json.loads((folder / FOLDS).read_text(encoding="utf-8"))
        folds = tuple(FoldResult.from_json(json.dumps(fold)) for fold in document["folds"])
        validation = Validation(folds, document["per"], read_nested(folder), read_recovery(folder))
        # what cannot be scored is none of ours
        validation.scores().loc["vbagg"]
        validation.coverage()
        validation.reliability()
        validation.pit_histogram()
        return validation


def read_recovery(folder: Path) -> Recovery | None:
    """What refits to simulated totals recover, None if there were none."""
    if not (folder / RECOVERY).exists():
        return None
    from vbagg.validate import Recovery

    with written_by("validate", folder / RECOVERY):
        recovery = Recovery.from_json((folder / RECOVERY).read_text(encoding="utf-8"))
        # what cannot be told is none of ours
        recovery.sentences()
        recovery.by_bag()
        return recovery
