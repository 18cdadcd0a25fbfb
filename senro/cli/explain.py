"""`senro explain`: explains the result of the step in a pod, as text or as JSON."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import click
import msgspec

from senro.api.classify import NotAPodError, classify
from senro.cli.pipeline_file import LoadError
from senro.cli.pod_documents import read_pods
from senro.domain.text.printable import printable
from senro.domain.verdict.explain.classification import Classification

WIDTH = 100
"""The maximum width of a line of text, in columns."""

_TITLES = {
    "pending": "waiting",
    "running": "running",
    "ending": "ending",
    "cancelled": "cancelled",
    "timed_out": "timed out",
}


def explain_file(path: str, *, container: str | None, deadline: int | None, as_json: bool) -> int:
    """Prints an explanation of each pod in the file, or in standard input if `path` is `-`. Returns the exit code."""
    try:
        pods, events = read_pods(_read(path))
    except NotAPodError as error:
        raise LoadError(path, f"{error}; it takes what kubectl get pod NAME -o json prints") from error
    results = [classify(pod, container=container, own_deadline=deadline, events=events or None) for pod in pods]
    if as_json:
        click.echo(json.dumps([to_json(result) for result in results], indent=2))
    else:
        click.echo("\n\n".join(to_text(result) for result in results))
    return 0


def to_text(result: Classification) -> str:
    """Returns the answer, what to do, the evidence, the rule and the known states, as lines of text."""
    place = f"pod {result.namespace}/{result.pod}" if result.namespace else f"pod {result.pod}"
    where = f", node {result.node}" if result.node else ""
    seen = "seen once" if result.seen == 1 else f"seen {result.seen} times"
    lines = [printable(f"{place}{where}, container {result.container}, {seen}"), "", f"  {_title(result).upper()}"]
    lines += _wrap(result.sentence, "  ")
    if result.hint:
        lines += ["", "  What to do", *_wrap(result.hint, "    ")]
        lines += [f"    $ {printable(command)}" for command in result.commands]
    lines += ["", "  Evidence", *(line for item in result.evidence for line in _wrap(item, "    ", "      "))]
    lines += ["", f"  Rule {result.rule} of the table of verdicts", *_wrap(result.because, "    ")]
    if result.rows:
        lines += ["", "  Known states in it"]
    for row in result.rows:
        lines += _wrap(f"{row.number:3}  {row.where} {row.value or '(empty)'} -> {row.means}", "    ", "         ")
        lines += _wrap(row.why, "         ")
    return "\n".join(lines)


def to_json(result: Classification) -> dict[str, Any]:
    """Returns the same as a JSON object. Later versions add keys and never remove one."""
    answer: dict[str, Any] = msgspec.to_builtins(result.answer)
    return {
        "pod": result.pod,
        "namespace": result.namespace,
        "uid": result.uid,
        "node": result.node,
        "container": result.container,
        "seen": result.seen,
        "answer": result.word,
        "settled": result.answer.settled,
        **{f"answer_{key}" if key == "node" else key: value for key, value in answer.items()},
        "rule": result.rule,
        "because": result.because,
        "sentence": result.sentence,
        "hint": result.hint,
        "commands": list(result.commands),
        "evidence": list(result.evidence),
        "rows": [msgspec.to_builtins(row) for row in result.rows],
    }


def _title(result: Classification) -> str:
    answer = msgspec.to_builtins(result.answer)
    if result.word == "exited" and "start-error" in answer["notes"]:
        return "failed: its command could not be started"
    if result.word == "exited":
        return "succeeded" if answer["code"] == 0 else "failed, by its own exit code"
    if result.word == "infra":
        return f"failed by the cluster: {answer['kind']}"
    return _TITLES[result.word] + (f": {answer['kind']}" if "kind" in answer else "")


def _wrap(text: str, indent: str, hanging: str | None = None) -> list[str]:
    """Returns `text` in lines of at most `WIDTH` columns. `hanging`, by default `indent`, precedes later lines."""
    return textwrap.wrap(
        printable(" ".join(text.split())),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise LoadError(path, f"cannot be read: {error.strerror or error}") from error
