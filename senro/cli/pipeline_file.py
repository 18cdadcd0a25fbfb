"""Loads the pipeline that `FILE[:NAME]` names."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from senro.domain.errors import SenroError
from senro.domain.plan.pipeline import Pipeline


class LoadError(SenroError):
    """A file cannot be used.

    `path`: the file.
    `message`: what is wrong, and in which line.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def load_pipeline(reference: str) -> Pipeline:
    """Imports the file and returns the pipeline that `FILE` or `FILE:NAME` names. Raises `LoadError`.

    The file is imported as a module, with its folder first on `sys.path`, as Python does for a script. NAME is a
    variable of the module or the name of a pipeline, and may be omitted if the module has one pipeline.
    """
    path, _, name = reference.rpartition(":") if _has_name(reference) else (reference, "", "")
    file = Path(path)
    if not file.is_file():
        raise LoadError(path, "there is no such file; write the path of a Python file that defines a senro.Pipeline")
    found = _pipelines(_import(file))
    if name:
        return _named(path, name, found)
    if not found:
        raise LoadError(path, _choices(found))
    if len(_distinct(found)) > 1:
        raise LoadError(path, f"which pipeline? Write {path}:NAME; {_choices(found)}")
    return found[0][1]


def _named(path: str, name: str, found: list[tuple[str, Pipeline]]) -> Pipeline:
    """Returns the pipeline in the variable `name`, else the one pipeline of that name. Raises `LoadError`."""
    named = [entry for entry in found if entry[0] == name] or [entry for entry in found if entry[1].name == name]
    if not named:
        raise LoadError(path, f"it has no pipeline {name!r}; {_choices(found)}")
    if len(_distinct(named)) > 1:
        raise LoadError(path, f"several pipelines are called {name!r}; write {path}:VARIABLE; {_choices(named)}")
    return named[0][1]


def _distinct(found: list[tuple[str, Pipeline]]) -> set[int]:
    return {id(pipeline) for _, pipeline in found}


def _has_name(reference: str) -> bool:
    return ":" in reference and not Path(reference).is_file()


def _choices(found: list[tuple[str, Pipeline]]) -> str:
    names = ", ".join(sorted({variable for variable, _ in found}))
    return f"it has: {names}" if names else "no variable of the module is a senro.Pipeline"


def _pipelines(module: ModuleType) -> list[tuple[str, Pipeline]]:
    return [(name, value) for name, value in vars(module).items() if isinstance(value, Pipeline)]


def _import(file: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"senro_pipeline_{file.stem}", file)
    if specification is None or specification.loader is None:
        raise LoadError(str(file), "it is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(file.parent.absolute()))
    sys.modules[specification.name] = module
    try:
        specification.loader.exec_module(module)
    except SystemExit as error:
        raise LoadError(str(file), f"it ended the program with {error.code!r} while it was imported") from error
    except Exception as error:
        raise LoadError(str(file), _where(error, file)) from error
    return module


def _where(error: Exception, file: Path) -> str:
    """Returns the error with the last line of `file` in its traceback; the rest of the traceback is senro's."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file.absolute()]
    line = own[-1].lineno if own else None
    words = str(error)
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == file.absolute():
        line, words = error.lineno, error.msg
    at = f"line {line}: " if line else ""
    return f"{at}{type(error).__name__}: {words}"
