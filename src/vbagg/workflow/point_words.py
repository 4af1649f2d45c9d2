"""Words of the polygons that stand for points where only these can be meant: `--response positive --trials tested`."""

from __future__ import annotations

from pathlib import Path

from vbagg.geo.files import some
from vbagg.likelihoods import get_likelihood
from vbagg.workflow.settings import Settings


def with_words_of_points(settings: Settings) -> Settings:
    """The same settings, with each word where it belongs; words that could mean either are refused.

    Of several responses the one that only the table of points has is that of the points; a single one is that of both
    if both files have such a column. Trials are those of the points where the polygons' likelihood has none, and else
    of both, if the points have that column.
    """
    data, model = settings.data, settings.model
    if data.points is None:
        return settings
    if data.negative:
        raise ValueError("`points` go with totals that are counts, and not with `negative`. Leave out one of them.")
    is_needed = data.point_response is None and len(data.response) > 1
    columns = _columns(data.points, data.at, data.point_sheet, is_needed)
    response, others = data.point_response, data.response
    if response is None and len(others) > 1:
        own = [name for name in others if name in columns]
        if len(own) > 1:
            raise ValueError(
                f"{data.points} has columns for several of the responses ({some(own)}). Name the one of the points by "
                "`--point-response`, and that of the polygons by `--response`."
            )
        response = own[0] if own else None
        others = tuple(name for name in others if name != response)
    elif response is None and others and others[0] in columns:
        response = others[0]
    trials, of_polygons = data.point_trials, model.trials
    if trials is None and data.point_people is None and of_polygons is not None:
        needed = get_likelihood(model.likelihood).needs_trials
        if not needed:
            trials, of_polygons = of_polygons, None
        elif of_polygons in columns:
            trials = of_polygons
    if len(others) > 1:
        raise ValueError(
            f"Points go with one response of the polygons; got {some(others)}. Make a run for each, in folders of "
            "their own."
        )
    return settings.model_copy(
        update={
            "data": data.model_copy(update={"response": others, "point_response": response, "point_trials": trials}),
            "model": model.model_copy(update={"trials": of_polygons}),
        }
    )


def _columns(points: Path, at: str | None, sheet: str | None, is_needed: bool) -> tuple[str, ...]:
    """Columns of the points; unless they are needed none if they cannot be read, which is told where they are."""
    from vbagg.geo.places import read_places

    try:
        return read_places(points, at, sheet=sheet).table.header
    except (ValueError, OSError):
        if is_needed:
            raise
        return ()
