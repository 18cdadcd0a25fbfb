"""`senro explain`: what became of the step in a pod, and why, for a person or for a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from senro.api.classify import NotAPodError, classify
from senro.cli.pipeline_file import LoadError
from senro.cli.pod_documents import read_sightings
from senro.cli.wrap import wrapped
from senro.domain.text.printable import printable
from senro.domain.verdict.explain.classification import Classification

_TITLES = {
    "pending": "waiting",
    "running": "running",
    "ending": "being taken away",
    "cancelled": "cancelled",
    "timed_out": "timed out",
}


def explain_file(path: str, *, container: str | None, deadline: int | None, as_json: bool) -> int:
    """Print what every pod in the file came to; `-` reads standard input. Returns the exit code."""
    try:
        pods, events = read_sightings(_read(path))
    except NotAPodError as error:
        raise LoadError(path, f"{error}; it takes what kubectl get pod NAME -o json prints") from error
    told = [
        classify(each.observations, container=container, own_deadline=deadline, events=events or None) for each in pods
    ]
    if as_json:
        click.echo(json.dumps([to_json(each) for each in told], indent=2))
    else:
        click.echo("\n\n".join(explained(each) for each in told))
    return 0


def explained(told: Classification) -> str:
    """The answer, what to do, the evidence and the rows of the table, as text."""
    place = f"pod {told.namespace}/{told.pod}" if told.namespace else f"pod {told.pod}"
    where = f", node {told.node}" if told.node else ""
    seen = "seen once" if told.seen == 1 else f"seen {told.seen} times"
    lines = [printable(f"{place}{where}, container {told.container}, {seen}"), "", f"  {_title(told).upper()}"]
    lines += wrapped(told.sentence, "  ")
    if told.hint:
        lines += ["", "  What to do", *wrapped(told.hint, "    ")]
        lines += [f"    $ {printable(command)}" for command in told.commands]
    lines += ["", "  Evidence", *(line for each in told.evidence for line in wrapped(each, "    ", "      "))]
    lines += ["", f"  Rule {told.rule} of the table of verdicts", *wrapped(told.because, "    ")]
    if told.rows:
        lines += ["", "  Known states in it"]
        for row in told.rows:
            lines += wrapped(
                f"{row.number:3}  {row.where} {row.value or '(empty)'} -> {row.means}", "    ", "         "
            )
            lines += wrapped(row.why, "         ")
    return "\n".join(lines)


def to_json(told: Classification) -> dict[str, Any]:
    """The same for a program; keys are only ever added."""
    answer: dict[str, Any] = msgspec.to_builtins(told.answer)
    return {
        "pod": told.pod,
        "namespace": told.namespace,
        "uid": told.uid,
        "node": told.node,
        "container": told.container,
        "seen": told.seen,
        "answer": told.word,
        "settled": told.answer.settled,
        **{f"answer_{key}" if key == "node" else key: value for key, value in answer.items()},
        "rule": told.rule,
        "because": told.because,
        "sentence": told.sentence,
        "hint": told.hint,
        "commands": list(told.commands),
        "evidence": list(told.evidence),
        "rows": [msgspec.to_builtins(row) for row in told.rows],
    }


def _title(told: Classification) -> str:
    answer = msgspec.to_builtins(told.answer)
    if told.word == "exited" and "start-error" in answer["notes"]:
        return "failed: its command could not be started"
    if told.word == "exited":
        return "succeeded" if answer["code"] == 0 else "failed, by its own exit code"
    if told.word == "infra":
        return f"failed by the cluster: {answer['kind']}"
    return _TITLES[told.word] + (f": {answer['kind']}" if "kind" in answer else "")


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise LoadError(path, f"cannot be read: {error.strerror or error}") from error
