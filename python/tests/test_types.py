# SPDX-License-Identifier: Apache-2.0
"""The package is typed: mypy passes on it, and the stub says what the extension module has."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import kiln
import pytest
from kiln import _kiln

PACKAGE = Path(kiln.__file__).parent
STUB = ast.parse((PACKAGE / "_kiln.pyi").read_text())


def test_the_package_passes_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    settings = Path(__file__).parents[2] / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path), "-p", "kiln"]
    found = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def parameters(declared: ast.FunctionDef) -> list[str]:
    """Names in a declaration of the stub, without those that take the rest."""
    return [
        a.arg for a in (*declared.args.posonlyargs, *declared.args.args, *declared.args.kwonlyargs) if a.arg != "self"
    ]


def parameters_of(function: object) -> list[str]:
    """Names in the signature that nanobind has of a function."""
    signature = function.__nb_signature__[0][0]  # type: ignore[attr-defined]
    names = ast.parse(signature.replace("\\", "default") + ": ...").body[0]
    assert isinstance(names, ast.FunctionDef)
    return parameters(names)


CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}


def test_the_stub_has_all_names_of_the_module() -> None:
    offered = {name for name in vars(_kiln) if not name.startswith("__")}
    assert offered == CLASSES.keys() | FUNCTIONS.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_the_stub_has_all_members(name: str) -> None:
    declared = {node.name: node for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}
    members = vars(getattr(_kiln, name))
    ours = {member for member in members if not member.startswith("__")}
    assert ours == {member for member in declared if not member.startswith("__")}
    for member in ours | ({"__init__"} & declared.keys()):
        is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in declared[member].decorator_list)
        assert isinstance(members[member], property) == is_property, member
        if not is_property:
            assert parameters(declared[member]) == parameters_of(members[member]), member


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stub_has_the_functions_parameters(name: str) -> None:
    assert parameters(FUNCTIONS[name]) == parameters_of(getattr(_kiln, name))


def test_what_is_offered_is_there() -> None:
    for name in kiln.__all__:
        assert getattr(kiln, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kiln.nothing
