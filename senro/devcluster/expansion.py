"""The kubelet's `$(VAR)` expansion (docs/design/api-rules.md#variable-expansion, recording variable-expansion)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to variables, once, from left to right.

    `$$` becomes `$`, `$(NAME)` the variable's value where there is one and stays as it is where there is none; a `$`
    before anything else, or at the end, stays. What was put in is not looked at again.
    """
    parts: list[str] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        parts.append(text[position:dollar])
        following = text[dollar + 1]
        if following == "$":
            parts.append("$")
            position = dollar + 2
            continue
        if following != "(":
            parts.append("$" + following)
            position = dollar + 2
            continue
        closing = text.find(")", dollar + 2)
        if closing < 0:
            # Without any later parenthesis the scan goes on behind the opening one.
            parts.append("$(")
            position = dollar + 2
            continue
        name = text[dollar + 2 : closing]
        parts.append(variables.get(name, f"$({name})"))
        position = closing + 1
    parts.append(text[position:])
    return "".join(parts)
