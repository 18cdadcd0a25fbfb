from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from senro.cli.pipeline_file import LoadError, load_pipeline
from senro.domain.errors import SenroError

ONE = "import senro\np = senro.Pipeline('release')\nagain = p\n"
TWO = "import senro\na = senro.Pipeline('first')\nb = senro.Pipeline('second')\n"


@pytest.fixture(autouse=True)
def restore_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Loading a file adds its folder to `sys.path` and its module to `sys.modules`; both are restored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(text: str, name: str = "release.py") -> str:
    Path(name).write_text(text)
    return name


def refusal(reference: str) -> str:
    with pytest.raises(LoadError) as caught:
        load_pipeline(reference)
    assert isinstance(caught.value, SenroError)
    return str(caught.value)


def test_the_only_pipeline_needs_no_name() -> None:
    """Also if two variables have it, by a relative or an absolute path."""
    assert load_pipeline(write(ONE)).name == "release"
    assert load_pipeline(str(Path("release.py").absolute())).name == "release"
    assert load_pipeline("./release.py").name == "release"


@pytest.mark.parametrize(("name", "found"), [("a", "first"), ("b", "second"), ("first", "first"), ("second", "second")])
def test_a_name_is_a_variable_or_the_name_of_a_pipeline(name: str, found: str) -> None:
    """`FILE:NAME` names a variable of the module or a pipeline."""
    assert load_pipeline(f"{write(TWO)}:{name}").name == found


def test_a_variable_goes_before_a_name() -> None:
    """A variable is preferred to a pipeline of the same name."""
    text = "import senro\nx = senro.Pipeline('y')\ny = senro.Pipeline('x')\n"
    assert load_pipeline(f"{write(text)}:y").name == "x"
    assert load_pipeline("release.py:x").name == "y"


def test_a_file_with_a_colon_is_a_file() -> None:
    """The part after a colon is a name only if the whole is no file."""
    assert load_pipeline(write(ONE, "a:b.py")).name == "release"
    assert load_pipeline("a:b.py:p").name == "release"
    assert load_pipeline("a:b.py:").name == "release"


def test_modules_next_to_the_file_can_be_imported() -> None:
    """The file's folder is first on the path, and dataclasses find their module."""
    Path("sub").mkdir()
    Path("sub/neighbour_of_release.py").write_text("NAME = 'n'\n")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport senro\n"
        "from neighbour_of_release import NAME\n"
        "@dataclass\nclass C:\n    x: int\n"
        "p = senro.Pipeline(NAME)\n"
    )
    assert load_pipeline(write(text, "sub/my release.py")).name == "n"


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (TWO, "", "release.py: which pipeline? Write release.py:NAME; it has: a, b"),
        (TWO, ":c", "release.py: it has no pipeline 'c'; it has: a, b"),
        ("x = 1\n", "", "release.py: no variable of the module is a senro.Pipeline"),
        (
            "x = 1\n",
            ":p",
            "release.py: it has no pipeline 'p'; no variable of the module is a senro.Pipeline",
        ),
        (
            TWO.replace("second", "first"),
            ":first",
            "release.py: several pipelines are called 'first'; write release.py:VARIABLE; it has: a, b",
        ),
        ("import sys\n\nsys.exit(3)\n", "", "release.py: it ended the program with 3 while it was imported"),
        ("raise SystemExit('no')\n", "", "release.py: it ended the program with 'no' while it was imported"),
        ("x = 1\ny = (\n", "", "release.py: line 2: SyntaxError: '(' was never closed"),
        ("x = 1\n  y = 2\n", "", "release.py: line 2: IndentationError: unexpected indent"),
        ("x = 1\n\nx / 0\n", "", "release.py: line 3: ZeroDivisionError: division by zero"),
        (
            "import no_such_module_here\n",
            "",
            "release.py: line 1: ModuleNotFoundError: No module named 'no_such_module_here'",
        ),
        (
            "import json\n\n\ndef inner():\n    json.loads('')\n\n\ninner()\n",
            "",
            "release.py: line 5: JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        ),
    ],
)
def test_a_file_that_cannot_be_used(text: str, name: str, sentence: str) -> None:
    """The message has the file, the line of the user's code if there is one, and what to write."""
    assert refusal(write(text) + name) == sentence


def test_an_error_in_an_imported_file() -> None:
    """The line is that of the import; Python's message has the other file and line."""
    write("x = (\n", "other_of_release.py")
    message = refusal(write("import senro\nimport other_of_release\n"))
    assert message == "release.py: line 2: SyntaxError: '(' was never closed (other_of_release.py, line 1)"


def test_a_missing_file_and_a_folder() -> None:
    """The message says what to give instead."""
    wanted = "there is no such file; write the path of a Python file that defines a senro.Pipeline"
    assert refusal("gone.py") == f"gone.py: {wanted}"
    assert refusal("gone.py:p") == f"gone.py: {wanted}"
    Path("folder.py").mkdir()
    assert refusal("folder.py") == f"folder.py: {wanted}"


def test_a_file_without_the_suffix_py() -> None:
    """Python imports files by their suffix."""
    assert refusal(write(ONE, "release.txt")) == "release.txt: it is no Python file; its name must end in .py"


def test_a_binary_file() -> None:
    """Bytes that Python cannot read are refused too."""
    Path("bad.py").write_bytes(b"\x00\x01")
    assert refusal("bad.py").startswith("bad.py: ")
    Path("bad.py").write_bytes(b"x = '\xff'\n")
    assert "SyntaxError" in refusal("bad.py")


def test_an_interrupt_during_the_import() -> None:
    """Ctrl-C during the import ends senro, and is not reported as an error of the file."""
    with pytest.raises(KeyboardInterrupt):
        load_pipeline(write("raise KeyboardInterrupt\n"))


def test_the_attributes_of_the_error() -> None:
    """Programs can read `path` and `message`."""
    error = LoadError("a.py", "it is wrong")
    assert (error.path, error.message, str(error)) == ("a.py", "it is wrong", "a.py: it is wrong")
