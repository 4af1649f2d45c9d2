"""Imports go down the flow: no module needs itself through others, imports inside functions included."""

from __future__ import annotations

import ast
import re
from functools import reduce
from pathlib import Path

import vbagg

ROOT = Path(vbagg.__file__).parent


def modules() -> dict[str, Path]:
    """Source files by module name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: set[str]) -> set[str]:
    """Modules of the package that a file imports anywhere but for type checkers."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= submodules & known
            if not submodules <= known:
                names.add(node.module)
    return names & known


def cycles() -> list[str]:
    """Groups of modules that need each other."""
    files = modules()
    needs = {name: imports(path, set(files)) - {"vbagg"} for name, path in files.items()}
    reach: dict[str, set[str]] = {}
    for name in needs:
        seen: set[str] = set()
        ahead = list(needs[name])
        while ahead:
            other = ahead.pop()
            if other not in seen:
                seen.add(other)
                ahead += needs[other]
        reach[name] = seen
    rings = {frozenset(other for other in reach[name] if name in reach[other]) for name in needs if name in reach[name]}
    return sorted(", ".join(sorted(ring)) for ring in rings)


def test_no_module_needs_itself_through_others():
    assert cycles() == []


def test_readme_names_what_the_package_has():
    """By the package's own way to find them: a module that anything has imported is an attribute anyway."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w./])vbagg\.([A-Za-z_][\w.]*)\(", readme))
    assert {"priors.default_priors", "Prior"} <= named
    for name in named:
        first, *rest = name.split(".")
        assert reduce(getattr, rest, vbagg.__getattr__(first)) is not None
