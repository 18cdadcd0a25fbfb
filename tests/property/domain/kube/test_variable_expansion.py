from __future__ import annotations

import base64
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.kube.variable_expansion import escape
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.pod import pod_manifest
from senro.domain.pipeline.step import Step
from senro.domain.transfer.containers import IO_COMMAND
from tests.lib.builders.plans import one_step, only_step, steps

dollars = st.text("$()AB $", max_size=30) | st.text(max_size=20)
variables = st.dictionaries(st.text("$()AB ", max_size=3), dollars, max_size=5)


def expand(text: str, environment: dict[str, str]) -> str:
    """The kubelet's expansion (docs/design/api-rules.md#variable-expansion)."""
    out = []
    place = 0
    while place < len(text):
        character = text[place]
        following = text[place + 1 : place + 2]
        if character != "$" or not following:
            out.append(character)
            place += 1
        elif following == "$":
            out.append("$")
            place += 2
        elif following == "(" and (end := text.find(")", place + 2)) >= 0:
            name = text[place + 2 : end]
            out.append(environment.get(name, f"$({name})"))
            place = end + 1
        else:
            out.append(character + following)
            place += 2
    return "".join(out)


def test_the_model_of_the_kubelet() -> None:
    """The model gives the recorded log of a pod that a real kubelet ran."""
    recording = json.loads(Path("tests/contract/recordings/variable-expansion.json").read_text())
    created = next(exchange for exchange in recording["exchanges"] if exchange["request"]["method"] == "POST")
    (container,) = created["request"]["json"]["spec"]["containers"]
    environment: dict[str, str] = {}
    for variable in container["env"]:
        environment[variable["name"]] = expand(variable["value"], environment)
    words = [expand(word, environment) for word in container["command"]]
    first, _, rest = words[2].partition("; ")
    read = next(exchange for exchange in recording["exchanges"] if exchange["request"]["path"].endswith("/log"))
    log = b"".join(base64.b64decode(chunk["base64"]) for chunk in read["response"]["chunks"]).decode().splitlines()
    assert log == [
        first.removeprefix("echo ").strip("'"),
        "env: " + "|".join(environment[name] for name in "ABCD"),
    ]
    assert rest == 'echo "env: $A|$B|$C|$D"'


@given(dollars, variables)
def test_an_escaped_text_is_expanded_to_itself(text: str, environment: dict[str, str]) -> None:
    """This holds for any text and any variables."""
    assert expand(escape(text), environment) == text


@given(steps(), variables)
def test_command_and_environment_reach_the_process_unchanged(step: Step, environment: dict[str, str]) -> None:
    """After the kubelet's expansion the container has the command and the variables of the step."""
    manifest = pod_manifest(step, AttemptIdentity("$(A)", step.id, 1, "n"))
    container = manifest["spec"]["containers"][0]
    assert tuple(expand(word, environment) for word in container["command"]) == step.command
    seen = {entry["name"]: expand(entry["value"], environment) for entry in container["env"]}
    assert {name: seen[name] for name in step.env} == step.env
    assert seen["SENRO_RUN"] == "$(A)"


def test_other_fields_are_not_escaped() -> None:
    """A workdir, a mount path and an annotation keep their `$`, and the transfer scripts work."""
    pipeline = one_step(workdir="/a$b", mounts=[])
    step = only_step(pipeline)
    manifest = pod_manifest(step, AttemptIdentity("r", "a$b", 1, "n$"))
    assert manifest["spec"]["containers"][0]["workingDir"] == "/a$b"
    assert manifest["metadata"]["annotations"] == {"senro.dev/step-id": "a$b", "senro.dev/attempt-uid": "n$"}
    assert [expand(escape(word), {}) for word in IO_COMMAND] == list(IO_COMMAND)
