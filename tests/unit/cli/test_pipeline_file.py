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
def as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Loading a file leaves its folder on the path and its module loaded, as running it would; undone here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(text: str, name: str = "release.py") -> str:
    Path(name).write_text(text)
    return name


def refusal(reference: str) -> str:
    with pytest.raises(LoadError) as caught:
        load_pipeline(reference)
    assert isinstance(caught.value, SenroError)
    return str(caught.value)


def test_the_only_pipeline_needs_no_name() -> None:
    """Also where two variables hold it, by a relative path or by an absolute one."""
    assert load_pipeline(written(ONE)).name == "release"
    assert load_pipeline(str(Path("release.py").absolute())).name == "release"
    assert load_pipeline("./release.py").name == "release"


@pytest.mark.parametrize(("name", "found"), [("a", "first"), ("b", "second"), ("first", "first"), ("second", "second")])
def test_a_pipeline_is_meant_by_variable_or_by_name(name: str, found: str) -> None:
    """`FILE:NAME`, where NAME is what the module or what the pipeline calls it."""
    assert load_pipeline(f"{written(TWO)}:{name}").name == found


def test_a_variable_goes_before_a_name() -> None:
    """Where one pipeline is called what another's variable is, the variable is meant."""
    text = "import senro\nx = senro.Pipeline('y')\ny = senro.Pipeline('x')\n"
    assert load_pipeline(f"{written(text)}:y").name == "x"
    assert load_pipeline("release.py:x").name == "y"


def test_a_file_with_a_colon_is_a_file() -> None:
    """A name is taken off only where the whole is no file."""
    assert load_pipeline(written(ONE, "a:b.py")).name == "release"
    assert load_pipeline("a:b.py:p").name == "release"
    assert load_pipeline("a:b.py:").name == "release"


def test_neighbours_are_imported_as_by_a_script() -> None:
    """The file's own folder is first on the path, and its dataclasses find their module."""
    Path("sub").mkdir()
    Path("sub/neighbour_of_release.py").write_text("NAME = 'n'\n")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport senro\n"
        "from neighbour_of_release import NAME\n"
        "@dataclass\nclass C:\n    x: int\n"
        "p = senro.Pipeline(NAME)\n"
    )
    assert load_pipeline(written(text, "sub/my release.py")).name == "n"


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
def test_what_cannot_be_used_is_one_sentence(text: str, name: str, sentence: str) -> None:
    """Each refusal names the file, the line of the user's own code where there is one, and what to write."""
    assert refusal(written(text) + name) == sentence


def test_a_mistake_in_another_file_is_told_of_that_file() -> None:
    """The line is the one of the import; the other file and its line are in Python's own words."""
    written("x = (\n", "other_of_release.py")
    message = refusal(written("import senro\nimport other_of_release\n"))
    assert message == "release.py: line 2: SyntaxError: '(' was never closed (other_of_release.py, line 1)"


def test_what_is_no_file_is_told_so() -> None:
    """A missing file and a folder, with what to give instead."""
    wanted = "there is no such file; write the path of a Python file that defines a senro.Pipeline"
    assert refusal("gone.py") == f"gone.py: {wanted}"
    assert refusal("gone.py:p") == f"gone.py: {wanted}"
    Path("folder.py").mkdir()
    assert refusal("folder.py") == f"folder.py: {wanted}"


def test_what_is_no_python_file_is_told_so() -> None:
    """Python imports by the end of the name."""
    assert refusal(written(ONE, "release.txt")) == "release.txt: it is no Python file; its name must end in .py"


def test_a_file_that_is_no_text_is_told_so() -> None:
    """Bytes that Python does not read are a refusal too."""
    Path("bad.py").write_bytes(b"\x00\x01")
    assert refusal("bad.py").startswith("bad.py: ")
    Path("bad.py").write_bytes(b"x = '\xff'\n")
    assert "SyntaxError" in refusal("bad.py")


def test_an_interruption_is_no_refusal() -> None:
    """Ctrl-C while the file is imported stops senro; it is not told as a mistake of the file."""
    with pytest.raises(KeyboardInterrupt):
        load_pipeline(written("raise KeyboardInterrupt\n"))


def test_the_values_stay_with_the_error() -> None:
    """Programs read `path` and `message`."""
    error = LoadError("a.py", "it is wrong")
    assert (error.path, error.message, str(error)) == ("a.py", "it is wrong", "a.py: it is wrong")
