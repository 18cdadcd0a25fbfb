"""The commands and pipelines in README.md and the pages of docs/ are valid."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from senro.cli.main import main

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lines(page: Path) -> list[str]:
    """Returns the lines of a page's shell blocks that run senro."""
    found = []
    for language, text in BLOCK.findall(page.read_text()):
        if language in {"", "sh", "shell"}:
            found += [line for line in text.splitlines() if line.startswith("senro ")]
    return found


def command_path(words: list[str]) -> list[str]:
    """Returns the names of the command and its group. Raises `click.UsageError` for an invalid command line."""
    command: click.Command = main
    path = []
    context = click.Context(main, **main.context_settings)
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        assert name is not None
        path.append(name)
        command, context = found, click.Context(found, parent=context)
    command.make_context(path[-1], words, parent=context.parent)
    return path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_valid(page: Path) -> None:
    """Each line that begins with `senro` is a command with valid arguments and options."""
    for line in lines(page):
        assert command_path(shlex.split(line, comments=True)[1:])


def test_an_invalid_command_is_found() -> None:
    """The check finds an unknown command, an unknown option, a missing argument and an extra one."""
    for line in ("wss ls", "ws ls --long", "ws pull latest", "cache gc 30d"):
        with pytest.raises(click.UsageError):
            command_path(line.split())


def test_the_readme_shows_the_workspaces() -> None:
    """README.md shows `ws ls`, `ws diff` and `ws pull`."""
    shown = [command_path(shlex.split(line, comments=True)[1:]) for line in lines(ROOT / "README.md")]
    assert [path for path in shown if path[0] == "ws"] == [["ws", "ls"], ["ws", "diff"], ["ws", "pull"]]


def test_the_pipelines_of_the_page_on_workspaces_build() -> None:
    """The Python code of docs/workspaces.md builds after its digests are completed."""
    names: dict[str, Any] = {}
    blocks = [text for language, text in BLOCK.findall((ROOT / "docs" / "workspaces.md").read_text()) if language]
    for text in blocks:
        exec(text.replace("9f2c…", "9f2c" * 16), names)
    names["p"].workflow("more").step("s", ["true"], mounts=[names["deps"].at("/deps")])
    assert [workspace.name for workspace in names["p"].build().workspaces] == ["src", "out", "acme-deps"]
