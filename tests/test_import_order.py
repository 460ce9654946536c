"""The order of the folders: a folder imports only from itself and from folders before it."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "graphconv"
ORDER = (
    *("kernels", "graph", "io", "storage", "models", "engine", "training"),
    *("results", "estimators", "report", "paper", "commands"),
)
# The package itself: its version for everybody, its compiled half for the kernels.
ALLOWED = {("*", "__version__"), ("kernels", "_native")}


def imported_names(path: Path) -> Iterator[str]:
    """Every name of the package that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "graphconv":
                yield rest


def disorder(path: Path) -> Iterator[str]:
    """The imports of a file that the order forbids."""
    folder = path.relative_to(PACKAGE).parts[0]
    before = ORDER[: ORDER.index(folder) + 1]
    for name in imported_names(path):
        if name.split(".")[0] not in before and not {("*", name), (folder, name)} & ALLOWED:
            yield f"{path.relative_to(PACKAGE)} imports {name or 'the whole package'}"


def test_folders_are_in_the_list():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert folders == set(ORDER)


def test_a_folder_imports_only_from_folders_before_it():
    found = [line for path in sorted(PACKAGE.glob("*/**/*.py")) for line in disorder(path)]
    assert found == []


def test_a_private_module_is_imported_in_its_own_folder_only():
    private = {path.relative_to(PACKAGE) for path in PACKAGE.glob("*/**/_[a-z]*.py")}
    assert private, "modules with a leading underscore"
    for path in PACKAGE.glob("**/*.py"):
        for name in imported_names(path):
            for module in private:
                parts = (*module.parent.parts, module.stem)
                if tuple(name.split(".")[: len(parts)]) == parts:
                    assert path.relative_to(PACKAGE).is_relative_to(module.parent), (path, name)
