"""A simulated cluster is compared with a model that knows the truth: the verdict agrees, or says that it is unknown."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import object_from, pod_from
from senro.domain.verdict import (
    Answer,
    DidRun,
    Ending,
    Exited,
    Infra,
    Memory,
    Note,
    Observation,
    Pending,
    Running,
    TimedOut,
    observe,
    wants_events,
)
from tests.lib.verdict.cluster_model import BY_CLIENTS, BY_KUBELET, Cluster
from tests.lib.verdict.observations import UID
from tests.lib.verdict.pod_grammar import MAYBE, Choose

SECONDS = (1.0, 0.0, 0.4, 3.0, 6.0, 30.0, 400.0)
CODES = (0, 0, 1, 3, 137, 143)
CLIENTS = tuple(sorted(BY_CLIENTS))
REASONS = tuple(sorted(set(BY_KUBELET) - {"limit"}))
TENTHS = tuple(tenth / 10 for tenth in range(-50, 51))


class ClusterMachine(RuleBasedStateMachine):
    """Anything may happen at any time, and polls come at any time.

    The methods `may_*` say what may happen now; `played` uses them too.
    """

    cluster: Cluster
    reads_events: bool

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory.start(uid=UID)
        self.answer: Answer = self.memory.answer
        self.timed_out = False
        self.sign_was_seen = False
        self.finish_was_seen = False

    @initialize(skew=st.sampled_from(TENTHS), guarded=st.booleans(), reads_events=st.booleans())
    def create(self, *, skew: float, guarded: bool, reads_events: bool) -> None:
        self.cluster, self.reads_events = Cluster(skew, guarded=guarded), reads_events

    @rule(seconds=st.sampled_from(SECONDS))
    def wait(self, seconds: float) -> None:
        self.cluster.wait(seconds)

    # The pod's own life

    @precondition(lambda self: self.may_place())
    @rule()
    def place(self) -> None:
        self.cluster.place()

    def may_place(self) -> bool:
        return not (self.cluster.placed or self.cluster.metadata or self.cluster.exists_no_more)

    @precondition(lambda self: self.may_start())
    @rule()
    def start(self) -> None:
        self.cluster.start()

    def may_start(self) -> bool:
        cluster = self.cluster
        untouched = self.may_report() and cluster.process.started is None
        return untouched and not (cluster.metadata or cluster.kubelet_reason)

    @precondition(lambda self: self.may_end())
    @rule(code=st.sampled_from(CODES))
    def end(self, code: int) -> None:
        # A deadline's kill that lets the command end with 0 leaves no trace; the run's own timeout comes before it.
        untraced = self.cluster.kubelet_reason == "deadline" and code == 0
        self.cluster.end(137 if untraced else code)

    def may_end(self) -> bool:
        return self.cluster.process.alive

    @precondition(lambda self: self.may_report())
    @rule()
    def report(self) -> None:
        self.cluster.report()

    def may_report(self) -> bool:
        cluster = self.cluster
        return cluster.placed and not (cluster.lost or cluster.final or cluster.exists_no_more)

    @precondition(lambda self: self.may_finalise())
    @rule()
    def finalise(self) -> None:
        self.cluster.finalise()

    def may_finalise(self) -> bool:
        cluster = self.cluster
        never_started = cluster.process.started is None and bool(cluster.kubelet_reason or cluster.metadata)
        return self.may_report() and (never_started or cluster.reported_end is not None)

    # What the cluster does to it

    @precondition(lambda self: self.may_mark())
    @rule(who=st.sampled_from(CLIENTS))
    def mark(self, who: str) -> None:
        self.cluster.mark(who)

    def may_mark(self) -> bool:
        return not (self.cluster.exists_no_more or self.hides_what_the_kubelet_did())

    def hides_what_the_kubelet_did(self) -> bool:
        """Whether only the final phase, which was not seen yet, shows what the kubelet did.

        Who removes the pod then removes that too, and a deletion of a final pod is immediate
        (docs/design/pod-states.md#row-159-deletiontimestamp).
        """
        cluster = self.cluster
        return bool(cluster.kubelet_reason) and cluster.reported_end is not None and not self.answer.settled

    @precondition(lambda self: self.may_kill())
    @rule(why=st.sampled_from(REASONS))
    def kill(self, why: str) -> None:
        self.cluster.kill(why)

    def may_kill(self) -> bool:
        return self.may_report() and not self.cluster.kubelet_reason and self.cluster.process.ended is None

    @precondition(lambda self: self.may_outgrow_its_limit())
    @rule(code=st.sampled_from(CODES))
    def outgrow_its_limit(self, code: int) -> None:
        self.cluster.kill("limit")
        if self.cluster.process.alive:
            self.cluster.end(code)

    def may_outgrow_its_limit(self) -> bool:
        return self.may_kill() and self.cluster.guarded

    @precondition(lambda self: self.may_lose_node())
    @rule()
    def lose_node(self) -> None:
        self.cluster.lose()

    def may_lose_node(self) -> bool:
        """A kubelet that dies between an end that it caused and the phase takes its reason with it."""
        cluster = self.cluster
        return cluster.placed and (cluster.final or not cluster.kubelet_reason)

    @precondition(lambda self: self.may_silence())
    @rule()
    def silence(self) -> None:
        self.cluster.silence()

    def may_silence(self) -> bool:
        cluster = self.cluster
        reported_ready = cluster.conditions.get("Ready", {}).get("status") == "True"
        return cluster.lost and reported_ready and not (cluster.final or cluster.exists_no_more)

    @precondition(lambda self: self.may_come_back())
    @rule()
    def come_back(self) -> None:
        self.cluster.lost = False

    def may_come_back(self) -> bool:
        return self.cluster.lost

    @precondition(lambda self: self.may_reboot())
    @rule()
    def reboot(self) -> None:
        self.cluster.reboot()

    def may_reboot(self) -> bool:
        return self.may_lose_node() and self.cluster.process.alive and not self.cluster.final

    @precondition(lambda self: self.may_remove())
    @rule()
    def remove(self) -> None:
        self.cluster.remove()

    def may_remove(self) -> bool:
        asked = bool(self.cluster.metadata) and not self.hides_what_the_kubelet_did()
        return asked and (self.cluster.final or not self.cluster.placed)

    @precondition(lambda self: self.may_mark())
    @rule()
    def force_delete(self) -> None:
        self.cluster.force()

    @precondition(lambda self: self.may_collect())
    @rule()
    def collect(self) -> None:
        self.cluster.collect()

    def may_collect(self) -> bool:
        return self.cluster.lost and not self.cluster.final and not self.cluster.exists_no_more

    # What the run does

    @rule()
    def time_out(self) -> None:
        self.timed_out = True

    @rule()
    def poll(self) -> None:
        before, held = self.answer, self.memory.pending_exit
        self._observe()
        if before.settled:
            assert self.answer == before
            return
        if self.timed_out:
            assert isinstance(self.answer, TimedOut) or held is not None
        self._agree()
        self.sign_was_seen = self.sign_was_seen or self.memory.disruption is not None
        state = self.cluster.state or {}
        self.finish_was_seen = self.finish_was_seen or "terminated" in state

    def _observe(self) -> None:
        document = self.cluster.document()
        pod = None if document is None else pod_from(document)
        observation = Observation(pod=pod, at=self.cluster.now, timed_out=self.timed_out)
        answer, memory = observe(self.memory, observation)
        if self.reads_events and wants_events(answer, memory, observation.at, pod):
            events = tuple(object_from(event, ClusterEvent) for event in self.cluster.events())
            again = Observation(pod=pod, at=self.cluster.now, timed_out=self.timed_out, events=events)
            answer, memory = observe(self.memory, again)
        self.answer, self.memory = answer, memory

    def _agree(self) -> None:
        cluster, process = self.cluster, self.cluster.process
        match self.answer:
            case Exited(code=code, notes=notes):
                assert process.ended is not None
                assert code == process.code
                # The one thing that a pod cannot tell is said to be unknown, and told where Events may be read.
                unknown = cluster.hides_eviction and Note.DISRUPTION_UNCHECKED in notes and not self.reads_events
                assert cluster.by_command or unknown
            case Infra() as answer:
                self._agree_on(answer)
            case Ending():
                assert cluster.disrupted is not None
            case Running(finishing=False):
                assert process.started is not None
            case Running(finishing=True):
                assert process.ended is not None
            case Pending():
                assert "running" not in (cluster.state or {})
            case _:
                assert self.timed_out

    def _agree_on(self, answer: Infra) -> None:
        cluster, process = self.cluster, self.cluster.process
        assert cluster.disrupted is not None or cluster.lost or self.memory.silent_since is not None
        if cluster.by_command:
            # It ended first, and nobody can know: the two were first seen together, or the disruption was seen first,
            # or what the pod showed of its end was never seen at all.
            told = Note.TIE in answer.notes or self.sign_was_seen or not self.finish_was_seen
            assert told or "terminated" not in (cluster.state or {}), answer
        if answer.did_run is DidRun.YES:
            assert process.started is not None
        if answer.did_run is DidRun.NO:
            assert process.started is None
        if process.alive and not answer.may_be_alive:
            assert cluster.exists_no_more

    def teardown(self) -> None:
        """Once the cluster has come to rest, the verdict is the truth."""
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        cluster.lost = False
        if not cluster.exists_no_more and not cluster.final:
            if not cluster.placed:
                cluster.mark("delete")
                cluster.remove()
            else:
                if cluster.process.alive:
                    cluster.end(143 if cluster.disrupted is not None else 0)
                elif cluster.process.started is None:
                    cluster.mark("delete")
                cluster.report()
                self.poll()
                if not cluster.final:
                    cluster.finalise()
        self.poll()
        if cluster.placed:
            assert self.answer.settled, self.answer


# How often each happens where a play draws by chance, and from what its argument is taken; polls are frequent.
MOVES: dict[str, tuple[int, dict[str, tuple[object, ...]]]] = {
    "poll": (8, {}),
    "wait": (4, {"seconds": SECONDS}),
    "place": (4, {}),
    "start": (4, {}),
    "end": (2, {"code": CODES}),
    "report": (6, {}),
    "finalise": (3, {}),
    "mark": (1, {"who": CLIENTS}),
    "kill": (1, {"why": REASONS}),
    "outgrow_its_limit": (1, {"code": CODES}),
    "lose_node": (1, {}),
    "silence": (4, {}),
    "come_back": (1, {}),
    "reboot": (1, {}),
    "remove": (2, {}),
    "force_delete": (1, {}),
    "collect": (1, {}),
    "time_out": (1, {}),
}

STEPS = 40


def played(choose: Choose) -> None:
    """Plays `STEPS` moves without hypothesis, which is faster but does not shrink; a failure notes the moves."""
    machine, told = ClusterMachine(), []
    created = {"skew": choose(TENTHS), "guarded": choose(MAYBE), "reads_events": choose(MAYBE)}
    machine.create(**created)
    try:
        for _ in range(STEPS):
            may = [name for name, (often, _) in MOVES.items() if _may(machine, name) for _ in range(often)]
            name = choose(may)
            arguments = {key: choose(options) for key, options in MOVES[name][1].items()}
            told.append(f"{name}({arguments or ''})")
            getattr(machine, name)(**arguments)
        machine.teardown()
    except AssertionError as error:
        error.add_note(f"created {created}: {', '.join(told)}")
        raise


def _may(machine: ClusterMachine, name: str) -> bool:
    allowed = machine.may_mark if name == "force_delete" else getattr(machine, f"may_{name}", None)
    return allowed is None or bool(allowed())


def test_a_thousand_plays() -> None:
    """The verdict agrees with the model in a thousand random plays."""
    for seed in range(1_000):
        played(random.Random(seed).choice)


TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(stateful_step_count=30)
