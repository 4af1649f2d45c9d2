"""What a user says of catchments, and whether it makes sense together, before any file is read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from vbagg.geo.area_shares import COLUMNS
from vbagg.geo.bounds import marks_of
from vbagg.geo.catchments import Tell, catchments_by_travel, catchments_from_shares
from vbagg.geo.exposure import Exposure
from vbagg.geo.joining import joined_by
from vbagg.geo.polygons import Polygons
from vbagg.geo.told import NOTHING, Told


@dataclass(frozen=True)
class CatchmentWords:
    """Options by which facilities share cells, None or nothing where they were not given.

    Attributes
    ----------
    shares, share_columns
        Table of shares of areas, and its three columns in one text: see `catchments_from_shares`.
    facilities, at, friction, decay, reach, attraction, staying
        See `catchments_by_travel`.
    """

    shares: Any = None
    share_columns: str | None = None
    facilities: Any = None
    at: str | None = None
    friction: Any = None
    decay: float | None = None
    reach: float | None = None
    attraction: str | None = None
    staying: float | None = None

    @classmethod
    def of(cls, options: Any) -> CatchmentWords:
        """From anything that has them as attributes."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(cls)})

    @property
    def are_given(self) -> bool:
        """Whether facilities share cells."""
        return self.shares is not None or self.facilities is not None

    def require(self, polygons: Any, totals: Any, exposure: Exposure, points: Any = None) -> CatchmentWords:
        """The same; raise if they do not go together, or with other options."""
        if self.shares is not None and self.facilities is not None:
            raise ValueError(
                "Catchments follow from a table of shares or from travel time; got both `--shares` and `--facilities`. "
                "Leave out one."
            )
        self._require_friends(points is not None)
        if self.are_given and exposure.column is not None:
            raise ValueError(
                "People of catchments are those of the cells that they share; a column of people of each facility goes "
                "with polygons. Name a raster by `--population` instead, or leave it out for areas."
            )
        if self.shares is not None:
            if polygons is None:
                raise ValueError("Shares are those of areas. Name the file with these by `--polygons`.")
            if totals is None:
                raise ValueError(
                    "Totals of facilities are missing: `--shares` says who attends them. Name the table by `--totals`."
                )
        if self.facilities is not None:
            if polygons is not None:
                raise ValueError(
                    "Catchments by travel time have no polygons of their own; got `--polygons` beside `--facilities`. "
                    "Leave out the polygons, or name a table of shares of them by `--shares`."
                )
            for word, what in (("friction", "a raster of minutes to cross a cell"), ("decay", "a number of minutes")):
                self._require_word(word, what)
            self._require_word("reach", "a number of minutes")
        return self

    def _require_word(self, word: str, what: str) -> None:
        if getattr(self, word) is None:
            raise ValueError(f"Catchments by travel time need `--{word}`, {what}. Name it.")

    def _require_friends(self, has_points: bool) -> None:
        """Raise for words that say nothing without another; points have columns of coordinates too."""
        if self.at is not None and self.facilities is None and not has_points:
            raise ValueError(
                "`--at` goes with `--points` or `--facilities`; neither was named. Name one, or leave it out."
            )
        for main, words in (
            ("shares", ("share_columns",)),
            ("facilities", ("friction", "decay", "reach", "attraction", "staying")),
        ):
            for word in words:
                if getattr(self, main) is None and getattr(self, word) is not None:
                    raise ValueError(
                        f"`--{word.replace('_', '-')}` goes with `--{main}`; none was named. Name it, or leave it out."
                    )

    def read(
        self,
        polygons: Any,
        id: str | None,
        response: Any,
        *,
        layer: str | None = None,
        totals: Any = None,
        on: str | None = None,
        sheet: str | None = None,
        unmatched: str = "refuse",
        suppressed: Any = (),
        negative: bool = False,
        told: Told = NOTHING,
        exposure: Exposure,
        tell: Tell = lambda text: None,
    ) -> Polygons:
        """A polygon for each facility; the other options are those of `prepare`."""
        totals_as: dict[str, Any] = {"marks": marks_of(suppressed), "negative": negative, "told": told}
        if self.shares is not None:
            columns = COLUMNS if self.share_columns is None else _names(self.share_columns)
            table = {"totals": totals, "on": on, "sheet": sheet, "unmatched": unmatched}
            return catchments_from_shares(
                polygons,
                id,
                self.shares,
                response,
                layer=layer,
                share_columns=columns,
                exposure=exposure,
                **table,
                **totals_as,
            )
        assert self.decay is not None
        assert self.reach is not None
        return catchments_by_travel(
            self.facilities,
            self.friction,
            self.decay,
            self.reach,
            response,
            at=self.at,
            id=id,
            layer=layer,
            attraction=self.attraction,
            staying=self.staying or 0.0,
            table=joined_by(totals, on, sheet, unmatched),
            exposure=exposure,
            progress=tell,
            **totals_as,
        )


def _names(columns: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in columns.split(","))
