"""References to `docs/design`, and links between the Markdown pages of the repository, are valid."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DESIGN = ROOT / "docs" / "design"
RECORDINGS = ROOT / "tests" / "contract" / "recordings"
FACTS = ROOT / "tests" / "contract" / "facts" / "pod-states.json"
FOLDERS = ("senro", "tests", "benchmarks", "docs", "examples", "tools")
SUFFIXES = {"", ".cfg", ".ini", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}

REFERENCE = re.compile(r"docs/design/(?P<page>[\w-]+\.md)(?:#(?P<anchor>[\w-]+))?")
LINK = re.compile(r"\[[^\[\]]*\]\((?P<target>[^()\s]+)\)")
CODE = re.compile(r"`[^`]*`")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def texts() -> Iterator[Path]:
    """Yields the text files of the repository, without recordings and generated files."""
    yield from (path for path in sorted(ROOT.iterdir()) if path.suffix in {".md", ".toml"} or path.name == "Makefile")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            hidden = any(part.startswith((".", "__pycache__")) for part in path.relative_to(ROOT).parts)
            recorded = path.is_relative_to(RECORDINGS) and path.suffix != ".md"
            if path.is_file() and path.suffix in SUFFIXES and not hidden and not recorded:
                yield path


def read(path: Path) -> str:
    """Returns the text of a file; "" if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def anchors_of(markdown: str) -> set[str]:
    """Returns the anchors that GitHub gives to the headings of a page.

    An anchor is the heading in lower case, with only letters, digits, `_`, `-` and blanks, in which blanks become `-`.
    An anchor that exists already gets `-1`, `-2` and so on.
    """
    found: set[str] = set()
    count: Counter[str] = Counter()
    for heading in HEADING.finditer(FENCE.sub("", markdown)):
        text = LINK.sub(lambda link: link[0][1 : link[0].index("]")], heading["text"])
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(f"{anchor}-{count[anchor]}" if count[anchor] else anchor)
        count[anchor] += 1
    return found


@cache
def anchors(path: Path) -> set[str]:
    """Returns the anchors of the page at `path`."""
    return anchors_of(read(path))


def broken_references(text: str) -> list[str]:
    """Returns the references to `docs/design` in `text` whose page or heading does not exist."""
    broken = []
    for found in REFERENCE.finditer(text):
        page = DESIGN / found["page"]
        if not page.is_file() or (found["anchor"] is not None and found["anchor"] not in anchors(page)):
            broken.append(found[0])
    return broken


def broken_links(page: Path, markdown: str) -> list[str]:
    """Returns the relative links in `markdown`, the text of `page`, whose file or heading does not exist."""
    broken = []
    for found in LINK.finditer(CODE.sub("", FENCE.sub("", markdown))):
        target, _, anchor = found["target"].partition("#")
        if ELSEWHERE.match(target):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and (path.suffix != ".md" or anchor not in anchors(path))):
            broken.append(found["target"])
    return broken


TEXTS = list(texts())
PAGES = [path for path in TEXTS if path.suffix == ".md"]


def test_every_reference_to_the_design_is_valid() -> None:
    """Each `docs/design/<page>.md#<anchor>` in a text file names a page and a heading of it."""
    broken = {str(path.relative_to(ROOT)): wrong for path in TEXTS if (wrong := broken_references(read(path)))}
    assert broken == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_is_valid(page: Path) -> None:
    """Each relative link of a Markdown page names a file, and a heading of it if it has an anchor."""
    assert broken_links(page, read(page)) == []


def test_the_design_has_references() -> None:
    """The searched files include the code, and the pattern finds references in it."""
    assert any(REFERENCE.search(read(path)) for path in TEXTS if path.is_relative_to(ROOT / "senro"))


def test_every_recording_that_a_page_cites_exists() -> None:
    """After the word `recording` or `recordings`, a page of the design names files of tests/contract/recordings."""
    cited = {
        name
        for path in DESIGN.glob("*.md")
        for names in re.findall(r"\brecordings?\s+((?:`[\w-]+`(?:,\s+|\s+and\s+)?)+)", read(path))
        for name in re.findall(r"[\w-]+", names.replace(" and ", " "))
    }
    assert cited
    assert [name for name in sorted(cited) if not (RECORDINGS / f"{name}.json").is_file()] == []


def test_every_known_state_is_described() -> None:
    """`pod-states.md` has each row of the data file of pod states, as a heading or in a table."""
    page = read(DESIGN / "pod-states.md")
    cells = [cell for _, cell in re.findall(r"^(### Row |\| )(\d+(?:(?:, | to )\d+)*)(?=:| \|)", page, re.MULTILINE)]
    described: set[int] = set()
    for cell in cells:
        first, *others = map(int, re.findall(r"\d+", cell))
        described |= set(range(first, others[-1] + 1)) if " to " in cell else {first, *others}
    assert described == set(range(1, len(json.loads(FACTS.read_text())) + 1))


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# One word\n", {"one-word"}),
        ("## `$(VAR)` and more: 3.5 s\n", {"var-and-more-35-s"}),
        ("# Same\n\n# Same\n\n# Same\n", {"same", "same-1", "same-2"}),
        ("# With [a link](https://example.com/x)\n", {"with-a-link"}),
        ("```\n# a comment in a shell\n```\n\n# Real\n", {"real"}),
        ("#no-blank\n\ntext # more\n", set()),
    ],
)
def test_anchors_are_github_s(markdown: str, expected: set[str]) -> None:
    """The anchors of a page are those under which GitHub shows its headings."""
    assert anchors_of(markdown) == expected


def test_a_broken_reference_is_found() -> None:
    """A page and a heading that do not exist are reported; a page alone is a reference too."""
    # Concatenated, so that the test of all references does not find them in this file.
    folder = "docs/" + "design/"
    good = f"{folder}api-rules.md {folder}api-rules.md#quantities. "
    assert broken_references(good + f"{folder}no-page.md {folder}api-rules.md#no-heading)") == [
        f"{folder}no-page.md",
        f"{folder}api-rules.md#no-heading",
    ]


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """A file, a heading of it and a heading of the page itself that do not exist are reported."""
    (tmp_path / "other.md").write_text("# There\n")
    page = tmp_path / "page.md"
    text = (
        "# Here\n[a](other.md#there) [b](#here) [c](https://example.com) [d](gone.md) [e](other.md#gone) [f](#gone)\n"
    )
    page.write_text(text)
    assert broken_links(page, text) == ["gone.md", "other.md#gone", "#gone"]
