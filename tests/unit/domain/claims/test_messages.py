"""What senro adds to the cluster's messages about claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from senro.domain.claims.lease import LEASE_SECONDS
from senro.domain.claims.lease_protocol import RENEWALS
from senro.domain.claims.messages import add_claim_advice, failure_message, pending_message
from senro.domain.kube.names import CLAIM_ANNOTATION, WORKSPACE_ANNOTATION
from senro.domain.pipeline.step_mounts import claim_names
from senro.domain.run.events import LeaseAcquired, LeaseAwaited, LeaseLost, LeaseReleased
from senro.domain.verdict import DidRun, Infra, InfraKind, Note, Pending, PendingKind

MULTI_ATTACH = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) build-make-1'
IN_USE = (
    "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod."
)
MISSING = '0/1 nodes are available: persistentvolumeclaim "cache" not found. preemption: 0/1 nodes are available.'
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"

NO_VOLUME = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."


@pytest.mark.parametrize("words", [MULTI_ATTACH, IN_USE])
def test_a_claim_in_use_elsewhere(words: str) -> None:
    """The messages of attach controller and scheduler get the claim's name and an explanation of ReadWriteOnce."""
    told = add_claim_advice(words, ["cache"])
    assert told.startswith(words.rstrip("."))
    assert told.endswith(
        ". The claim cache is in use elsewhere: a ReadWriteOnce claim is on one node at a time, so the pods that mount "
        "it run one after the other."
    )
    assert ". The claims cache and other are in use elsewhere: " in add_claim_advice(words, ["cache", "other"])


def test_a_missing_claim() -> None:
    """The scheduler's message gets the claim's name, and that senro creates none."""
    assert add_claim_advice(MISSING, ["cache"]) == (
        MISSING.rstrip(".") + ". Create the claim cache in the pod's namespace: senro creates none."
    )


@pytest.mark.parametrize("words", [UNBOUND, NO_VOLUME])
def test_an_unbound_claim(words: str) -> None:
    """The scheduler's message gets the claim's name, and that senro binds none."""
    assert add_claim_advice(words, ["cache"]).endswith(". The claim cache must be bound to a volume: senro binds none.")


def test_messages_about_something_else() -> None:
    """A message that is not about the step's claims stays as it is."""
    for words in (MISSING, "0/1 nodes are available: 1 Insufficient cpu.", ""):
        assert add_claim_advice(words, ["other"]) == words
    for words in (MULTI_ATTACH, IN_USE, UNBOUND):
        assert add_claim_advice(words, []) == words


@pytest.mark.parametrize(
    "words",
    [
        "failed to bind-mount /x",
        "listen tcp :80: failed to bind",
        "error while creating mount source path: unable to bind the socket",
        "0/1 nodes are available: 1 node(s) had no free port to bind.",
    ],
)
def test_messages_that_only_resemble_it(words: str) -> None:
    """A message about binding something else stays as it is."""
    assert add_claim_advice(words, ["cache"]) == words
    assert failure_message(Infra(InfraKind.RUNTIME, DidRun.NO, message=words), ["cache"]) == words


def test_a_pod_without_a_message() -> None:
    """If the pod shows no cause, senro names the possible one after a while; a cause is quoted."""
    silent = Pending(PendingKind.CREATING, "step")
    told = "it mounts the claim cache; a ReadWriteOnce claim that is in use on another node"
    assert pending_message(silent, ["cache"], waited=5).startswith(told)
    assert pending_message(silent, ["cache"], waited=4.9) == ""
    assert pending_message(silent, [], waited=5) == ""
    assert pending_message(Pending(PendingKind.CREATING, "step", "pulling"), ["cache"], waited=5) == "pulling"
    assert pending_message(Pending(PendingKind.SCHEDULING), ["cache"], waited=5) == ""
    attached = Pending(PendingKind.VOLUME, message=MULTI_ATTACH)
    assert pending_message(attached, ["cache"], waited=0) == add_claim_advice(MULTI_ATTACH, ["cache"])


def test_the_message_of_a_failed_start() -> None:
    """The sentence about the claim is at the end; without a known cause it is the possible one."""
    timeout = Infra(InfraKind.START_TIMEOUT, DidRun.NO, message="the pod did not start in 300 s (creating).")
    assert failure_message(timeout, ["cache"]) == (
        "the pod did not start in 300 s (creating). It mounts the claim cache; a ReadWriteOnce claim that is in use on "
        "another node keeps a pod waiting here, and only its Events say so."
    )
    assert failure_message(timeout, []) == timeout.message
    volume = Infra(InfraKind.VOLUME, DidRun.NO, message=MULTI_ATTACH)
    assert failure_message(volume, ["cache"]) == add_claim_advice(MULTI_ATTACH, ["cache"])
    lost = Infra(InfraKind.NODE_LOST, DidRun.YES, message="the node fell silent")
    assert failure_message(lost, ["cache"]) == lost.message


def test_the_page_on_claims() -> None:
    """The first pipeline of docs/claims.md is valid, and its numbers and messages are those of the code."""
    page = Path(__file__).parents[4].joinpath("docs", "claims.md").read_text()
    code = page[page.index("```python") + len("```python") :]
    names: dict[str, Any] = {}
    exec(code[: code.index("```")].replace("9f2c…", "9f2c" * 16), names)
    (step,) = names["p"].build().steps
    assert claim_names(step.step) == ("senro-build-cache",)
    assert f"renewed every {LEASE_SECONDS // RENEWALS} seconds" in page
    assert LEASE_SECONDS == 60
    assert "expires after a minute" in page
    for event in (LeaseAwaited, LeaseAcquired, LeaseLost, LeaseReleased):
        assert f"`{event.__struct_config__.tag}`" in page
    for word in (WORKSPACE_ANNOTATION, CLAIM_ANNOTATION, Note.LEASE_LOST, InfraKind.CLAIM, "max_lifetime"):
        assert f"`{word}`" in page
    for words in ("unfenced", "serialises", "creates no claim, binds none, resizes none and deletes none"):
        assert words in page
