"""A cluster is played against a model that knows the truth: the classifier agrees, or says that it cannot know."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from senro.domain.cluster_event import ClusterEvent
from senro.domain.pod import object_from, pod_from
from senro.domain.verdict import (
    Answer,
    Cancelled,
    DidRun,
    Ending,
    Exited,
    Infra,
    Memory,
    Note,
    Observation,
    Pending,
    Running,
    observe,
    wants_events,
)
from tests.support_cluster_model import BY_CLIENTS, BY_KUBELET, Cluster
from tests.support_verdict import UID

CODES = st.sampled_from([0, 0, 1, 3, 137, 143])


class ClusterMachine(RuleBasedStateMachine):
    """Anything may happen at any moment, and the poller looks whenever it likes."""

    cluster: Cluster
    reads_events: bool

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory.start(uid=UID)
        self.answer: Answer = self.memory.answer
        self.cancelled = False
        self.sign_was_seen = False
        self.finish_was_seen = False

    @initialize(skew=st.floats(-5, 5), guarded=st.booleans(), reads_events=st.booleans())
    def create(self, *, skew: float, guarded: bool, reads_events: bool) -> None:
        self.cluster, self.reads_events = Cluster(skew, guarded=guarded), reads_events

    @rule(seconds=st.sampled_from([0.0, 0.4, 1.0, 3.0, 6.0, 30.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.wait(seconds)

    # The pod's own life

    @precondition(lambda self: not self.cluster.placed and not self.cluster.metadata)
    @rule()
    def place(self) -> None:
        self.cluster.place()

    @precondition(lambda self: self.may_start())
    @rule()
    def start(self) -> None:
        self.cluster.start()

    def may_start(self) -> bool:
        cluster = self.cluster
        untouched = cluster.placed and cluster.process.started is None and not cluster.kubelet_reason
        return untouched and not (cluster.metadata or cluster.final or cluster.exists_no_more or cluster.lost)

    @precondition(lambda self: self.cluster.process.alive)
    @rule(code=CODES)
    def end(self, code: int) -> None:
        # A deadline's kill with 0 leaves no trace either; the run's own timeout comes before it.
        untraced = self.cluster.kubelet_reason == "deadline" and code == 0
        self.cluster.end(137 if untraced else code)

    @precondition(lambda self: self.kubelet_works())
    @rule()
    def report(self) -> None:
        self.cluster.report()

    @precondition(lambda self: self.kubelet_works() and self.may_finalise())
    @rule()
    def finalise(self) -> None:
        self.cluster.finalise()

    def kubelet_works(self) -> bool:
        cluster = self.cluster
        return cluster.placed and not (cluster.lost or cluster.final or cluster.exists_no_more)

    def may_finalise(self) -> bool:
        cluster = self.cluster
        never_started = cluster.process.started is None and bool(cluster.kubelet_reason or cluster.metadata)
        return never_started or cluster.reported_end is not None

    # What the cluster does to it

    @precondition(lambda self: not self.cluster.exists_no_more)
    @rule(who=st.sampled_from(sorted(BY_CLIENTS)))
    def mark(self, who: str) -> None:
        self.cluster.mark(who)

    @precondition(lambda self: self.kubelet_works() and not self.cluster.kubelet_reason)
    @rule(why=st.sampled_from(sorted(BY_KUBELET)))
    def kill(self, why: str) -> None:
        if self.cluster.process.ended is None and (why != "limit" or self.cluster.guarded):
            self.cluster.kill(why)

    @precondition(lambda self: self.cluster.placed and not self.keeps_a_reason())
    @rule()
    def lose_node(self) -> None:
        self.cluster.lose()

    def keeps_a_reason(self) -> bool:
        """A kubelet that dies between an end that it caused and the phase takes its reason with it: nobody can know."""
        cluster = self.cluster
        return bool(cluster.kubelet_reason) and not cluster.final

    @precondition(lambda self: self.cluster.lost and not self.cluster.final)
    @rule()
    def silence(self) -> None:
        if self.cluster.conditions.get("Ready", {}).get("status") == "True":
            self.cluster.silence()

    @precondition(lambda self: self.cluster.lost)
    @rule()
    def come_back(self) -> None:
        self.cluster.lost = False

    @precondition(lambda self: self.cluster.placed and not self.cluster.final and not self.keeps_a_reason())
    @rule()
    def reboot(self) -> None:
        if self.cluster.process.alive:
            self.cluster.reboot()

    @precondition(lambda self: bool(self.cluster.metadata) and (self.cluster.final or not self.cluster.placed))
    @rule()
    def remove(self) -> None:
        self.cluster.remove()

    @precondition(lambda self: not self.cluster.exists_no_more)
    @rule()
    def force_delete(self) -> None:
        self.cluster.force()

    @precondition(lambda self: self.cluster.lost and not self.cluster.final and not self.cluster.exists_no_more)
    @rule()
    def collect(self) -> None:
        self.cluster.collect()

    # What the run does

    @rule()
    def cancel(self) -> None:
        self.cancelled = True

    @rule()
    def poll(self) -> None:
        before, held = self.answer, self.memory.held
        self._observe()
        if before.settled:
            assert self.answer == before
        elif self.cancelled:
            assert isinstance(self.answer, Cancelled) or held is not None
        self._agree()
        self.sign_was_seen = self.sign_was_seen or self.memory.sign is not None
        state = self.cluster.state or {}
        self.finish_was_seen = self.finish_was_seen or "terminated" in state

    def _observe(self) -> None:
        document = self.cluster.document()
        pod = None if document is None else pod_from(document)
        observation = Observation(pod=pod, at=self.cluster.now, cancelled=self.cancelled)
        answer, memory = observe(self.memory, observation)
        if self.reads_events and wants_events(answer, memory, observation.at):
            events = tuple(object_from(event, ClusterEvent) for event in self.cluster.events())
            again = Observation(pod=pod, at=self.cluster.now, cancelled=self.cancelled, events=events)
            answer, memory = observe(self.memory, again)
        self.answer, self.memory = answer, memory

    def _agree(self) -> None:
        cluster, process = self.cluster, self.cluster.process
        match self.answer:
            case Exited(code=code, notes=notes):
                assert process.ended is not None
                assert code == process.code
                # The one thing that a pod cannot tell is said to be unknown, and told where Events may be read.
                unknown = cluster.untold and Note.DISRUPTION_UNCHECKED in notes and not self.reads_events
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
                assert self.cancelled

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
        """Whatever was played, the truth comes out once the cluster has come to rest."""
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


TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(stateful_step_count=30)
