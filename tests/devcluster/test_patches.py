"""The four kinds of patch, on documents alone."""

from __future__ import annotations

from typing import Any

import pytest

from senro.devcluster.apiserver.patch import JSON, STRATEGIC, apply_patch, json_patch, merge_patch
from senro.devcluster.apiserver.status import Refused

CONTAINERS = [{"name": "c", "image": "one"}, {"name": "d", "image": "two"}]
POD = {
    "metadata": {"labels": {"a": "1"}, "finalizers": ["x/1"]},
    "spec": {"containers": CONTAINERS, "tolerations": [{"key": "k"}]},
}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"a": None}, {"b": {"c": 1}}),
        ({"b": {"c": None, "d": 2}}, {"a": 1, "b": {"d": 2}}),
        ({"b": [1]}, {"a": 1, "b": [1]}),
        ({}, {"a": 1, "b": {"c": 1}}),
    ],
)
def test_a_merge_patch(patch: dict[str, Any], expected: dict[str, Any]) -> None:
    """RFC 7386: null removes, objects merge, everything else replaces; the target itself is left alone."""
    target = {"a": 1, "b": {"c": 1}}
    assert merge_patch(target, patch) == expected
    assert target == {"a": 1, "b": {"c": 1}}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b/-", "value": 3}], {"a/b": 1, "b": [1, 2, 3]}),
        ([{"op": "add", "path": "/b/0", "value": 0}], {"a/b": 1, "b": [0, 1, 2]}),
        ([{"op": "remove", "path": "/a~1b"}], {"b": [1, 2]}),
        ([{"op": "replace", "path": "/b/1", "value": 9}], {"a/b": 1, "b": [1, 9]}),
        ([{"op": "move", "from": "/b/0", "path": "/c"}], {"a/b": 1, "b": [2], "c": 1}),
        ([{"op": "copy", "from": "/b", "path": "/c"}], {"a/b": 1, "b": [1, 2], "c": [1, 2]}),
        ([{"op": "test", "path": "/a~1b", "value": 1}], {"a/b": 1, "b": [1, 2]}),
    ],
)
def test_a_json_patch(operations: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    """RFC 6902: every operation, with its pointers' escapes."""
    assert json_patch({"a/b": 1, "b": [1, 2]}, operations) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/no"},
        {"op": "replace", "path": "/no", "value": 1},
        {"op": "add", "path": "/list/7", "value": 1},
        {"op": "add", "path": "no-pointer", "value": 1},
        {"op": "unknown", "path": "/a"},
        {"path": "/a"},
        "no object",
    ],
)
def test_a_json_patch_that_does_not_fit(operation: Any) -> None:
    """A test that fails, a place that is not there, or no operation at all is refused with 422."""
    with pytest.raises(Refused) as caught:
        apply_patch(JSON, {"a": 1, "list": []}, [operation])
    assert caught.value.code == 422


def test_a_json_patch_has_an_end() -> None:
    """More than ten thousand operations are refused with 413, and what is no list with 400."""
    with pytest.raises(Refused) as caught:
        json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)
    assert caught.value.code == 413
    with pytest.raises(Refused) as caught:
        json_patch({}, {"op": "add"})
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        (
            {"spec": {"containers": [{"name": "d", "image": "new"}]}},
            ("spec", "containers"),
            [{"name": "c", "image": "one"}, {"name": "d", "image": "new"}],
        ),
        (
            {"spec": {"containers": [{"name": "e", "image": "x"}]}},
            ("spec", "containers"),
            [*CONTAINERS, {"name": "e", "image": "x"}],
        ),
        (
            {"spec": {"containers": [{"name": "c", "$patch": "delete"}], "$setElementOrder/containers": []}},
            ("spec", "containers"),
            [{"name": "d", "image": "two"}],
        ),
        (
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}},
            ("spec", "containers"),
            [{"name": "z"}],
        ),
        ({"spec": {"tolerations": []}}, ("spec", "tolerations"), []),
        ({"metadata": {"finalizers": ["x/2"]}}, ("metadata", "finalizers"), ["x/1", "x/2"]),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/1"]}}, ("metadata", "finalizers"), []),
        ({"metadata": {"labels": None}}, ("metadata",), {"finalizers": ["x/1"]}),
        ({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}, ("metadata", "labels"), {"b": "2"}),
        ({"metadata": {"$retainKeys": ["labels"]}}, ("metadata",), {"labels": {"a": "1"}}),
    ],
)
def test_a_strategic_merge_patch(patch: dict[str, Any], path: tuple[str, ...], expected: Any) -> None:
    """Lists with a key merge item by item, others are replaced, and the directives do what they say."""
    found: Any = apply_patch(STRATEGIC, POD, patch)
    for step in path:
        found = found[step]
    assert found == expected
