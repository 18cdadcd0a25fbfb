"""What the kubelet's `$(VAR)` expansion leaves of a text, undone beforehand."""

from __future__ import annotations


def escape(text: str) -> str:
    """`text` such that the kubelet's expansion gives it back, whatever variables exist.

    The kubelet makes `$` of every `$$` in command, args and env values, and replaces `$(NAME)` where NAME exists; with
    every `$` doubled no reference is left (docs/design/api-rules.md#variable-expansion, recording
    `variable-expansion`). For those fields alone, and once: an exec's command, a workingDir or a Secret is never
    expanded.
    """
    return text.replace("$", "$$")
