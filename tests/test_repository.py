"""What holds for every file of the repository, whoever writes it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

# A room may import from the floors below its own, and from nothing beside or above it.
# The package itself, with `__main__`, is the room without a name.
FLOORS = (
    ("background", "errors", "clock", "durable"),
    ("context",),
    ("history",),
    ("store",),
    ("config",),
    ("files",),
    ("images", "instructions", "skills"),
    ("sources", "models", "tools"),
    ("exchange", "mcp", "plugins", "telemetry"),
    ("session",),
    ("runtime",),
    ("", "cli", "testing", "demo"),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# The few doors between rooms of the top floor. The scripted provider has one only to the demo,
# so that nothing of it can end up in a real run.
DOORS = {
    ("perdure.__main__", "cli"),
    ("perdure.cli.demo", "demo"),
    ("perdure.cli.demo", "testing"),
    ("perdure.demo", "testing"),
    ("perdure.cli", ""),
    ("perdure.demo", ""),
    ("perdure.testing", ""),
}

# Importing these costs more than a program that embeds Perdure should pay before it needs them.
SLOW = {
    "bs4",
    "click",
    "genai_prices",
    "httpx2",
    "markdownify",
    "mcp",
    "opentelemetry",
    "pathspec",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "yaml",
}

# In pieces, since this file is read like every other.
MACHINE_PATHS = ("/wor" + "k/", "/roo" + "t/", "/tmp/" + "v/")
REGISTRY_HOSTS = tuple(
    ".".join(host)
    for host in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("debian", "org"),
        ("crates", "io"),
    )
)
PRIVATE = re.compile(
    r"(?<![\w.~-])(" + "|".join(MACHINE_PATHS) + r")"
    r"|\b(" + "|".join(map(re.escape, REGISTRY_HOSTS)) + r")\b"
)


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def written_files(folder: Path = ROOT) -> Iterator[Path]:
    """Yield what people wrote: nothing hidden but CI's script, nothing that a tool left behind."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") and path.name not in {".ci", ".gitignore"}:
            continue
        if path.name in {"__pycache__", "build", "dist"}:
            continue
        if path.is_dir():
            yield from written_files(path)
        else:
            yield path


def shown(path: Path, line: int | None = None) -> str:
    return path.relative_to(ROOT).as_posix() + (f":{line}" if line else "")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    _, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return "" if room == "__main__" else room


def own_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of each module of ours that the file imports, in functions too."""
    ours = {module_name(each) for each in python_files("src")}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from perdure import runtime` reads a module, `from perdure import Runtime` the root.
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in ours else node.module for name in whole]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "perdure")


def points_down(module: str, imported: str) -> bool:
    here, there = room_of(module), room_of(imported)
    if here == there or FLOOR[there] < FLOOR[here]:
        return True
    return any(f"{module}.".startswith(f"{door}.") and there == to for door, to in DOORS)


def test_imports_point_down() -> None:
    upward = [
        f"{shown(path, line)} imports {imported}"
        for path in python_files("src")
        for line, imported in own_imports(path)
        if not points_down(module_name(path), imported)
    ]
    assert upward == []


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(module_name(path)) for path in python_files("src")}
    assert rooms - FLOOR.keys() == set()


def test_no_import_is_relative() -> None:
    relative = [
        shown(path, node.lineno)
        for path in python_files("src")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_no_file_is_longer_than_600_lines() -> None:
    lengths = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("src", "tests", "bench", "examples")
    }
    assert {name: lines for name, lines in lengths.items() if lines > 600} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    lengths = {
        f"{shown(path, node.lineno)} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in python_files("src", "tests", "bench", "examples")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > 60} == {}


def test_every_module_says_what_it_is_for() -> None:
    modules = [path for path in python_files("src") if parsed(path).body]
    silent = [shown(path) for path in modules if not ast.get_docstring(parsed(path))]
    assert silent == []


def test_importing_perdure_loads_nothing_slow() -> None:
    program = "import perdure, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert set(loaded.stdout.split()) & SLOW == set()


def test_no_file_names_a_build_machine_or_a_package_registry() -> None:
    named = [
        f"{shown(path, number)}: {line.strip()}"
        for path in written_files()
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if PRIVATE.search(line)
    ]
    assert named == []
