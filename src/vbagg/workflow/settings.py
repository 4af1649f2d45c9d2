"""Everything a run can be told, as one TOML file: sections, defaults, units, and errors that name the key."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from vbagg.errors import did_you_mean
from vbagg.files import written_whole
from vbagg.language import ENGLISH, LANGUAGES
from vbagg.likelihoods import REGISTERED

Likelihood = Literal[tuple(REGISTERED)]  # type: ignore[valid-type]
PointLikelihood = Literal[("same", *REGISTERED)]  # type: ignore[valid-type]
Language = Literal[tuple(LANGUAGES)]  # type: ignore[valid-type]
LEARNT = "learnt"
"""In the place of a number that is learnt."""
FILES = "files"
"""Marks fields that hold paths, which count from the folder of the TOML file."""
NEIGHBOURS, NO_AREAS = "neighbours", "none"
"""In the place of a column of larger areas."""
BARE = "bare"
"""Marks fields whose option may stand without a value, which is then this one."""
FLAG = "flag"
"""Word for a field outside of its section, where its own name would not explain itself."""


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _path(default: Any = None, *, description: str) -> Any:
    return Field(default=default, description=description, json_schema_extra={FILES: True})


def mark(field: FieldInfo, name: str) -> Any:
    """What a field is marked with under this name, None if nothing."""
    return field.json_schema_extra.get(name) if isinstance(field.json_schema_extra, dict) else None


class Section(BaseModel):
    """A table of the TOML file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _can_be_written(cls, value: Any) -> Any:
        """Names of files and columns go to the system and into files, which take no other text."""
        texts = (
            (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        )
        for text in texts:
            if isinstance(text, str | Path) and ("\0" in str(text) or not _is_unicode(str(text))):
                raise ValueError("text must be valid Unicode without the character NUL")
        return value


class Data(Section):
    """What goes in."""

    polygons: Path | None = _path(description="Polygons: GeoPackage, shapefile, GeoJSON or GeoParquet.")
    layer: str | None = Field(default=None, description="Layer of the polygon file, if it has several.")
    id: str | None = Field(
        default=None, description="Column that names the polygons; that of `--on`, or else row numbers, otherwise."
    )
    name: str | None = Field(
        default=None,
        description="Column with the names of the polygons for the report; by usual names, or else the id, otherwise.",
    )
    response: tuple[str, ...] = Field(
        default=(), description="Column with the totals; repeat for several, a model each."
    )
    totals: Path | None = _path(
        description="Table with the totals, joined to the polygons: CSV, Excel (.xlsx) or Parquet."
    )
    on: str | None = Field(
        default=None,
        description="Column of the polygons with the keys of the table; KEY=COLUMN if the table calls it COLUMN.",
    )
    sheet: str | None = Field(
        default=None, description="Sheet of the Excel workbook with the table, if it has several."
    )
    unmatched: Literal["refuse", "drop"] = Field(
        default="refuse", description="Whether rows of the table that match no polygon are refused or left out."
    )
    suppressed: tuple[str, ...] = Field(
        default=(),
        description="Bounds that a * in the place of a total stands for, such as 1-4, or MARK=1-4; repeat for several.",
    )
    negative: bool = Field(
        default=False, description="Totals may be negative, as differences are; they have no bounds then (normal only)."
    )
    population: Path | None = _path(description="Raster of people; without it, rates are per square kilometre.")
    population_is: Literal["guess", "counts", "density"] = Field(
        default="guess", description="Whether the population raster holds people per cell or per square kilometre."
    )
    population_column: str | None = Field(
        default=None, description="Column of the polygons, or of their table, with their people, instead."
    )
    exposure_column: str | None = Field(
        default=None, description="Column with expected counts instead of people: rates are then relative risks."
    )
    spread_by: Path | None = _path(
        description="Raster that such a column is spread by within polygons, such as lights; by area otherwise."
    )
    completeness_column: str | None = Field(
        default=None, description="Column with the share of cases that is reported, above 0 and at most 1."
    )
    population_sd: float | Path | None = Field(
        default=None,
        union_mode="left_to_right",
        description="How far off people may be: 0.1 for 10% of each polygon's, or a raster of standard deviations.",
        json_schema_extra={FILES: True},
    )
    population_sd_column: str | None = Field(
        default=None, description="Column with that of each polygon, relative to its people, instead."
    )
    population_errors: Literal["shared", "independent"] = Field(
        default="shared", description="Whether errors of a raster's cells go together within a polygon."
    )
    shares: Path | None = _path(
        description="Table of the parts, 0 to 1, of polygons' people who attend facilities; totals are then theirs."
    )
    share_columns: str | None = Field(
        default=None, description="Its columns of polygons, facilities and shares; area,facility,share otherwise."
    )
    facilities: Path | None = _path(
        description="Facilities in the place of polygons: points, or a table (CSV, Excel, Parquet) with `--at`."
    )
    friction: Path | None = _path(description="Raster of the minutes that it takes to cross a cell, for travel times.")
    decay: float | None = Field(
        default=None, gt=0, description="Minutes farther away at which a facility attracts 1/e (37%) as much."
    )
    reach: float | None = Field(default=None, gt=0, description="Minutes beyond which nobody travels to a facility.")
    attraction: str | None = Field(
        default=None, description="Column of the facilities with what each attracts, such as beds; alike otherwise."
    )
    staying: float | None = Field(
        default=None,
        ge=0,
        description="Attraction of attending none, as that of a facility next door is 1 (or its `--attraction`).",
    )
    covariate: tuple[Path, ...] = _path((), description="Raster of a covariate; repeat for several.")
    category: tuple[Path, ...] = _path((), description="Raster of classes, such as land cover; repeat for several.")
    resolution: float | None = Field(
        default=None,
        gt=0,
        description="Cell size of the target grid, in its units; that of the population raster otherwise.",
    )
    missing: Literal["nearest", "drop", "median"] = Field(
        default="nearest", description="What missing covariates become: the nearest valid cell's, a gap, or the median."
    )
    points: Path | None = _path(
        description="Surveys at points: a table (CSV, Excel, Parquet) or a file of points (GeoPackage, GeoJSON, ...)."
    )
    at: str | None = Field(
        default=None,
        description="Columns of a table of points, or of facilities, with longitudes and latitudes: LON,LAT. Otherwise "
        "by usual names.",
    )
    point_response: str | None = Field(default=None, description="Column of the points with what was found there.")
    point_trials: str | None = Field(default=None, description="Column of the points with how many were examined.")
    point_people: str | None = Field(
        default=None,
        description="Column of the points with the people among whom cases were counted, as they are in polygons.",
    )
    point_crs: str | None = Field(
        default=None, description="Coordinate reference system of the columns of `--at`, EPSG:4326 otherwise."
    )
    point_sheet: str | None = Field(
        default=None, description="Sheet of the workbook with the points, if it has several."
    )

    @field_validator("at", mode="before")
    @classmethod
    def _in_one_text(cls, value: Any) -> Any:
        """Two names of columns are as good as one text with both."""
        several = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
        return ",".join(value) if several else value


class Model(Section):
    """How rates are learnt."""

    likelihood: Likelihood = Field(  # type: ignore[valid-type]
        default="negative_binomial", description="Distribution of a total given its mean."
    )
    link: Literal["exp", "square", "identity", "logistic"] | None = Field(
        default=None, description="From the Gaussian process to the rate; otherwise what goes with the likelihood."
    )
    trials: str | None = Field(
        default=None, description="Column with the numbers of trials (binomial and beta_binomial only)."
    )
    point_likelihood: PointLikelihood | None = Field(
        default=None,
        description="Distribution of what was found at points, or that of polygons (same); else by their columns.",
    )
    point_slope: str = Field(
        default="1", description="By how much points follow the polygons' latent function: a number, or learnt."
    )
    landmarks: int | None = Field(default=None, gt=0, description="Landmarks of each part of the kernel.")
    hyper: Literal["point", "average"] = Field(
        default="average", description="Whether kernel parameters are set to their best values or averaged over."
    )
    seed: int = Field(default=0, ge=0, description="Seed of landmarks and folds.")

    @field_validator("point_slope", mode="before")
    @classmethod
    def _slope(cls, value: Any) -> Any:
        """A positive number, as a number or as text, or the word."""
        text = repr(value) if isinstance(value, int | float) else value
        with suppress(TypeError, ValueError):
            if text == LEARNT or 0 < float(text) < float("inf"):
                return text
        raise ValueError(f"a slope must be a positive number, or {LEARNT}")


class Validation(Section):
    """How unseen polygons are predicted, to see how far the maps can be trusted."""

    folds: int = Field(default=5, ge=2, description="Number of folds.")
    blocks: Literal["random", "spatial"] = Field(
        default="random", description="Polygons drawn at random, or compact regions."
    )
    fold_column: str | None = Field(default=None, description="Column of the polygons that holds the folds, instead.")
    nested: str = Field(
        default=NEIGHBOURS,
        description="Test maps inside polygons by fits to larger areas: those of this column of the polygons, or groups"
        " of neighbours; `none` leaves it out.",
        json_schema_extra={BARE: NEIGHBOURS},
    )
    recovery: int = Field(
        default=5, ge=0, description="Refits to simulated totals, which tell what the model recovers inside polygons."
    )
    skip: bool = Field(default=False, description="Leave validation out.", json_schema_extra={FLAG: "skip_validation"})


class Maps(Section):
    """What is mapped."""

    per: float = Field(
        default=1000.0, ge=1e-15, le=1e15, description="Rates are given per so many people (or square kilometres)."
    )
    level: float = Field(default=0.95, gt=1e-4, lt=1 - 1e-6, description="Level of intervals.")
    quantile: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(), description="A further quantile to map; repeat for several."
    )
    threshold: float | None = Field(
        default=None, description="Rate, in the units of `per`, whose probability of being exceeded is mapped."
    )
    match_totals: bool = Field(default=False, description="Also map counts rescaled to the observed totals.")
    to: tuple[Path, ...] = _path((), description="Other polygons to sum rates over; repeat for several.")


class Page(Section):
    """The report."""

    title: str | None = Field(default=None, description="Title of the report.")
    orientation: bool | None = Field(
        default=None, description="Coasts, borders and cities on maps; if not said, where polygons lie on land."
    )
    period: str | None = Field(default=None, description="When cases were counted, such as 2013, for the report.")
    source: str | None = Field(default=None, description="Who counted them, for the report.")
    language: Language = Field(  # type: ignore[valid-type]
        default=ENGLISH, description="Language of the report."
    )
    pdf: bool = Field(default=False, description="Also write the report as PDF, by Chromium or Chrome.")


class Settings(Section):
    """The whole TOML file."""

    data: Data = Data()
    model: Model = Model()
    validation: Validation = Validation()
    maps: Maps = Maps()
    report: Page = Page()


class Ground(Section):
    """New ground."""

    name: str = Field(
        default="new", pattern=r"^\w[\w.-]*$", description="Name of the new ground; results go to `elsewhere/NAME`."
    )
    covariate: dict[str, Path] = Field(
        default={},
        description="New raster for a covariate of the model, NAME=FILE; repeat for several. Others are as in the run.",
        json_schema_extra={FILES: True},
    )
    population: Path | None = _path(description="New raster of people; those of the run otherwise.")
    population_is: Literal["guess", "counts", "density"] = Field(
        default="guess", description="Whether the new population raster holds people per cell or per square kilometre."
    )
    grid: Path | None = _path(
        description="Raster whose cells are mapped; those of the run, or of the first new raster, otherwise."
    )
    polygons: Path | None = _path(
        description="Areas that are mapped and summed over; those of the run on its own grid, else every cell."
    )
    layer: str | None = Field(default=None, description="Layer of that file, if it has several.")
    id: str | None = Field(default=None, description="Column that names these areas; row numbers otherwise.")

    @field_validator("covariate", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """`NAME=FILE`, as the command line has it, by name."""
        if isinstance(value, Mapping) or not isinstance(value, list | tuple):
            return value
        found: dict[str, str] = {}
        for text in map(str, value):
            name, mark, file = text.partition("=")
            if not (name and mark and file):
                raise ValueError(f"it must be NAME=FILE, such as elevation=new/elevation.tif; got {text!r}")
            if name in found:
                raise ValueError(f"{name!r} must be given once")
            found[name] = file
        return found


class GroundSettings(Settings):
    """The TOML file of new ground: the settings of the run, and what is new."""

    ground: Ground = Ground()


class Place(NamedTuple):
    """Where a word of the command line or of `vbagg.geo.run` stands in the settings."""

    section: str
    key: str


def sections_of(kind: type[Settings]) -> dict[str, type[Section]]:
    """Sections of a TOML file by name."""
    return {name: field.annotation for name, field in kind.model_fields.items() if isinstance(field.annotation, type)}


SECTIONS = sections_of(Settings)
OPTIONS = sections_of(GroundSettings)
"""Sections whose fields are options of commands."""


def sections_in(settings: Settings) -> dict[str, type[Section]]:
    """Sections that these settings have."""
    return {name: section for name, section in OPTIONS.items() if hasattr(settings, name)}


WORDS: dict[str, Place] = {
    mark(field, FLAG) or key: Place(name, key)
    for name, section in SECTIONS.items()
    for key, field in section.model_fields.items()
}
"""Every setting by the word that it has outside of its section."""


Kind = TypeVar("Kind", bound=Settings)


def make_settings(table: Mapping[str, Any], source: str, kind: type[Kind] = Settings) -> Kind:  # type: ignore[assignment]
    """Check a nested table of settings; the first thing wrong becomes one line that names `source` and the key."""
    _refuse_unknown(table, source, sections_of(kind))
    try:
        settings = kind.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{source}: `{key}` is wrong: {_in_words(first)}; got {first['input']!r}.") from None
    _require_possible(settings, source)
    return settings


def _in_words(flaw: ErrorDetails) -> str:
    """What is wrong with a value, without the words of a library."""
    if flaw["type"] == "string_pattern_mismatch":
        return "it must begin with a letter or a digit, and have no others than these, and _ . -"
    return flaw["msg"].removeprefix("Value error, ")


def _require_possible(settings: Settings, source: str) -> None:
    """Refuse maps that make no sense for totals that may be negative, or may not."""
    negative, maps = settings.data.negative, settings.maps
    if maps.threshold is not None and maps.threshold <= 0 and not negative:
        raise ValueError(
            f"{source}: `maps.threshold` must be a positive rate; got {maps.threshold:g}. Add `--negative` where "
            "totals may be negative."
        )
    if maps.match_totals and negative:
        raise ValueError(
            f"{source}: `maps.match_totals` rescales counts, which are not negative; got it with `negative`. Leave out "
            "one of them."
        )


def combine(base: Kind, given: Mapping[str, Mapping[str, Any]], source: str) -> Kind:
    """Settings with what was given, by section and key, in its place."""
    table = base.model_dump()
    for section, keys in given.items():
        table[section] |= keys
    return make_settings(table, source, type(base))


def from_words(words: Mapping[str, Any], config: Path | None = None) -> Settings:
    """Settings from words such as `covariate=["evi.tif"]`, those of a TOML file or the defaults for all others."""
    given: dict[str, dict[str, Any]] = {}
    for word, value in words.items():
        if word not in WORDS:
            raise ValueError(f"There is no option `{word}`{did_you_mean(word, WORDS)}")
        section, key = WORDS[word]
        is_several = get_origin(SECTIONS[section].model_fields[key].annotation) is tuple
        alone = is_several and (isinstance(value, str | os.PathLike) or not isinstance(value, Iterable))
        given.setdefault(section, {})[key] = (value,) if alone else value
    return combine(Settings() if config is None else read_settings(config), given, "options")


def read_settings(path: Path, kind: type[Kind] = Settings) -> Kind:  # type: ignore[assignment]
    """Settings from a TOML file; relative paths count from its folder."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"There is no file {path}. Name a TOML file with settings.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}. Name a TOML file with settings.") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from None
    settings = make_settings(table, str(path), kind)
    return _with_paths(settings, lambda own: Path(os.path.normpath(path.parent / own)))


def setting(settings: Settings, name: str) -> Any:
    """A setting by `section.key`, None if there is none of that name."""
    section, _, key = name.partition(".")
    known = section in OPTIONS and key in OPTIONS[section].model_fields and hasattr(settings, section)
    return getattr(getattr(settings, section), key) if known else None


def write_settings(settings: Settings, path: Path) -> None:
    """Write the complete settings as TOML."""
    with written_whole(path) as file:
        file.write(settings_text(settings, path).encode())


def settings_text(settings: Settings, path: Path) -> str:
    """The complete settings as TOML with a line of help for each key; paths relative to the folder of the file."""
    relative = _with_paths(settings, lambda own: Path(os.path.relpath(own, path.parent)))
    lines = ["# Settings of a vbagg run; `vbagg run --config` repeats it."]
    for name, section in sections_in(settings).items():
        lines += ["", f"# {(section.__doc__ or '').splitlines()[0]}", f"[{name}]"]
        for key, field in section.model_fields.items():
            value = getattr(getattr(relative, name), key)
            entry = f"# {key} =" if value is None else f"{key} = {_toml(value)}"
            lines.append(f"{entry}  # {field.description}")
    return "\n".join(lines) + "\n"


def _refuse_unknown(table: Mapping[str, Any], source: str, sections: Mapping[str, type[Section]]) -> None:
    for name, content in table.items():
        if name not in sections:
            raise ValueError(f"{source}: there is no section [{name}]{did_you_mean(name, sections)}")
        if not isinstance(content, Mapping):
            raise ValueError(f"{source}: [{name}] must be a section; got {content!r}.")
        for key in content:
            known = sections[name].model_fields
            if key not in known:
                raise ValueError(f"{source}: section [{name}] has no key `{key}`{did_you_mean(key, known)}")


def _with_paths(settings: Kind, change: Callable[[Path], Path]) -> Kind:
    changed = {}

    def changed_in(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(change, value))
        return {name: change(path) for name, path in value.items()} if isinstance(value, dict) else change(value)

    for name, section in sections_in(settings).items():
        own = getattr(settings, name)
        held = {key: getattr(own, key) for key, field in section.model_fields.items() if mark(field, FILES)}
        # a number may stand for a file
        updates = {key: changed_in(value) for key, value in held.items() if isinstance(value, Path | tuple | dict)}
        changed[name] = own.model_copy(update=updates)
    return settings.model_copy(update=changed)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(name)} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value.as_posix() if isinstance(value, Path) else value, ensure_ascii=False)
