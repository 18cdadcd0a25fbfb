"""What README.md and the pages of docs/ show: commands that there are, pipelines that are ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from senro.cli.main import main

ROOT = Path(__file__).parents[4]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lines(page: Path) -> list[str]:
    """The lines of a page's shell blocks that run senro, without their comments."""
    found = []
    for language, text in BLOCK.findall(page.read_text()):
        if language in {"", "sh", "shell"}:
            found += [line for line in text.splitlines() if line.startswith("senro ")]
    return found


def parsed(words: list[str]) -> list[str]:
    """The command that the words are of; raises `click.UsageError` for words that it does not take."""
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
def test_every_command_is_one(page: Path) -> None:
    """Each `senro` line is a command that exists, with arguments and options that it takes."""
    for line in lines(page):
        assert parsed(shlex.split(line, comments=True)[1:])


def test_what_is_no_command_is_found_out() -> None:
    """The check itself can fail: by a command, an option and an argument too much."""
    for line in ("wss ls", "ws ls --long", "ws pull latest", "cache gc 30d"):
        with pytest.raises(click.UsageError):
            parsed(line.split())


def test_the_tour_shows_the_workspaces() -> None:
    """The README's tour has `ws ls`, `ws diff` and `ws pull`."""
    shown = [parsed(shlex.split(line, comments=True)[1:]) for line in lines(ROOT / "README.md")]
    assert [path for path in shown if path[0] == "ws"] == [["ws", "ls"], ["ws", "diff"], ["ws", "pull"]]


def test_the_pipelines_of_workspaces_are_ones() -> None:
    """The Python of docs/workspaces.md builds, once its digest is written out."""
    names: dict[str, Any] = {}
    blocks = [text for language, text in BLOCK.findall((ROOT / "docs" / "workspaces.md").read_text()) if language]
    for text in blocks:
        exec(text.replace("9f2c…", "9f2c" * 16), names)
    names["p"].workflow("more").step("s", ["true"], mounts=[names["deps"].at("/deps")])
    assert [workspace.name for workspace in names["p"].build().workspaces] == ["src", "out", "acme-deps"]
