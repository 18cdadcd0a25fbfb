"""Protects text from the kubelet's `$(VAR)` expansion."""

from __future__ import annotations


def escape(text: str) -> str:
    """Doubles every `$`, so that the kubelet's expansion returns `text`.

    Use it once, and for command, args and values of env alone: the kubelet expands nothing else
    (docs/design/api-rules.md#variable-expansion, recording `variable-expansion`).
    """
    return text.replace("$", "$$")
