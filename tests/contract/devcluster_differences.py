"""All recorded requests that the embedded cluster answers differently from the real one, with the reasons.

A key is a scenario and the position of an exchange. `DIFFERENCES` has the exchanges that always differ, `SOMETIMES`
those that may differ because two processes race, in the recording too. Any other exchange must be equal. An exchange of
`DIFFERENCES` that is equal must be removed.
"""

from __future__ import annotations

Key = tuple[str, int]

_CGROUPS = (
    "the recorded node counted an unlimited cgroup (v1) as a limit of 9007199254740988Ki in status.resources, which is "
    "no limit and is omitted here"
)
_TOOLS = "the recorded image had busybox; here the messages are those of the host's tools (GNU tar, dd, touch, ls, sh)"
_NODE = (
    "the node is this machine: its capacity, kernel, images and ids differ, and it has no annotations of an "
    "attach-detach controller"
)
_PIPES = "stdout and stderr are two pipes: the order of two lines that are written at once is undefined"
_SCHEDULER = "the read races with the scheduler: 204 until the pod has a node"
_MOMENT = "the pod is deleted a few milliseconds after its creation, in a race with its kubelet"
_TICKS = "the number of lines that were printed before the deletion depends on milliseconds"
_LAST_WORD = (
    "process 1 of the container ends while the exec that released it reports: Success, 137 and no status all occur "
    "on real clusters (recordings/README.md)"
)

_ALWAYS: dict[str, tuple[Key, ...]] = {
    "gitCommit is empty, since this is no build of Kubernetes": (("connection", 0),),
    _CGROUPS: (
        ("deadline-exceeded", 8),
        ("evicted-kubelet-trap-zero", 9),
        ("exit-three", 8),
        ("exit-zero", 8),
        ("injected-sidecars", 8),
        ("injected-sidecars", 16),
        ("killed-by-itself", 8),
        ("log-rotation", 6),
        ("logs", 19),
        ("secret-lifecycle", 12),
        ("variable-expansion", 8),
    ),
    _TOOLS: (
        ("evicted-kubelet-trap-zero", 7),
        ("exec-tty", 5),
        ("exec-tty", 6),
        ("exec-tty", 7),
        ("secret-lifecycle", 11),
        ("transfers-broken", 4),
        ("transfers-broken", 5),
        ("transfers-broken", 7),
        ("workspace-round-trip", 10),
    ),
    "senro sends no SelfSubjectRulesReview, so it is not served": (("connection", 8),),
    "senro always offers a subprotocol; a client that offers none is refused": (("exec-basics", 11),),
    "senro watches nothing, and kubectl lists where initial events are refused": (("watch", 3),),
    _NODE: (("nodes", 0), ("nodes", 1), ("nodes", 3)),
    (
        "a Memory volume is a folder of this machine: its sizeLimit is checked from time to time, as for others, and "
        "does not stop the write itself"
    ): (("transfers-broken", 6),),
}

_MAY: dict[str, tuple[Key, ...]] = {
    _PIPES: (
        ("exit-zero", 7),
        ("logs", 9),
        ("logs", 12),
        ("logs", 13),
        ("logs", 14),
        ("logs", 18),
        ("oom-child", 7),
    ),
    _SCHEDULER: (("logs", 1),),
    _MOMENT: (("refused", 10),),
    _TICKS: (("logs-interrupted", 5),),
    _LAST_WORD: (("workspace-round-trip", 6),),
    "a failing pull alternates between ErrImagePull and ImagePullBackOff, by a clock of its own": (
        ("injected-sidecars", 24),
    ),
    ("the pod ends with its grace period and is removed a moment later: the log is read before that or after"): (
        ("deleted-ignores-term", 7),
    ),
}

DIFFERENCES = {key: reason for reason, keys in _ALWAYS.items() for key in keys}
SOMETIMES = {key: reason for reason, keys in _MAY.items() for key in keys}
