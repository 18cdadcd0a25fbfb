from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.kube import names
from tests.lib.builders.plans import dns_labels

anything = st.text(max_size=100) | st.text(string.ascii_letters + string.digits + "-_. /", max_size=100)
label_values = st.from_regex(r"\A([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?\Z")

# The apiserver's own expressions, as its messages quote them (recording `refused`), with its lengths.
VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@given(anything)
def test_a_label_value_is_always_valid(text: str) -> None:
    """Any text, also an empty one or a lone surrogate, becomes a valid label value."""
    value = names.label_value(text)
    assert len(value) <= 63
    assert VALUE.fullmatch(value)
    assert names.is_label_value(value)


@given(label_values)
def test_a_valid_label_value_is_itself(text: str) -> None:
    """A label value is not changed."""
    assert names.label_value(text) == text


@given(st.lists(anything | label_values, unique=True, min_size=2, max_size=8))
def test_different_texts_have_different_label_values(texts: list[str]) -> None:
    """No two texts have the same label value, nor a text and the value of another one."""
    texts = list(dict.fromkeys([*texts, *map(names.label_value, texts)]))
    assert len({names.label_value(text) for text in texts}) == len(texts)


def test_shortened_label_values_differ() -> None:
    """Neither cutting nor replacing makes two ids equal."""
    texts = ["a" * 64, "a" * 65, "a b", "a/b", "a\tb", "a-b", "", " ", "\ud800", "\ud801"]
    assert len({names.label_value(text) for text in texts}) == len(texts)


def test_a_shortened_label_value_is_readable() -> None:
    """It begins with the original text."""
    assert names.label_value("deploy to prod.apply the chart").startswith("deploy-to-prod.apply-the-char")


@given(anything, anything, st.integers(1, 10**6), anything)
def test_an_attempt_name_is_a_host_name(run: str, step: str, attempt: int, nonce: str) -> None:
    """It is a DNS-1123 label of at most 63 characters, for the pod, its hostname and its Secret."""
    name = names.attempt_name(run, step, attempt, nonce)
    assert len(name) <= 63
    assert LABEL.fullmatch(name)
    assert names.is_dns_label(name)
    assert names.is_dns_subdomain(name)


@given(st.lists(st.tuples(anything, anything, st.integers(1, 99), anything), unique=True, min_size=2, max_size=8))
def test_different_attempts_have_different_names(attempts: list[tuple[str, str, int, str]]) -> None:
    """Run, step, attempt and nonce all change the name."""
    assert len({names.attempt_name(*attempt) for attempt in attempts}) == len(attempts)


def test_the_parts_of_an_attempt_are_separate() -> None:
    """Moving characters between parts changes the name, although the joined text is the same."""
    assert names.attempt_name("ra", "b", 1, "n") != names.attempt_name("r", "ab", 1, "n")
    assert names.attempt_name("r", "b", 11, "n") != names.attempt_name("r", "b", 1, "1n")


def test_an_attempt_name_is_readable() -> None:
    """It has the step and the number of the attempt."""
    assert names.attempt_name("run", "build.make", 2, "n").startswith("build-make-2-")
    assert names.attempt_name("run", "Übung", 1, "n").startswith("bung-1-")
    assert names.attempt_name("run", "---", 1, "n").startswith("step-1-")
    assert len(names.attempt_name("run", "x" * 200, 10**30, "n")) == 63


@given(st.lists(dns_labels, unique=True, min_size=2, max_size=6))
def test_each_workspace_has_its_variable(workspaces: list[str]) -> None:
    """No two workspaces share a variable, and apiserver and shell accept each."""
    variables = {names.content_variable("WORKSPACE", name) for name in workspaces}
    assert len(variables) == len(workspaces)
    assert all(re.fullmatch(r"SENRO_WORKSPACE_[A-Z0-9_]+", variable) for variable in variables)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.is_dns_label, ["a", "0", "a-b", "a" * 63], ["", "-a", "a-", "A", "a.b", "a" * 64, "a\n", "ä"]),
        (names.is_dns_subdomain, ["a.b", "a" * 253], ["", ".", "a..b", "a.", "a" * 254, "a.B", "a.b\n"]),
        (names.is_label_value, ["", "a", "A_b.c-9", "a" * 63], ["-a", "a-", "a" * 64, "a b", "a\n", "ä"]),
        (
            names.is_label_key,
            ["a", "example.com/a_B", "a" * 63, "x" * 253 + "/a"],
            ["", "/a", "a/", "a/b/c", "Example.com/a", "-a", "a" * 64, "x" * 254 + "/a", "a\n"],
        ),
        (names.is_annotation_key, ["a", "Example.com/a"], ["", "a b", "\u212a", "/a"]),
        (names.is_variable, ["a", "_", "-", "A.B-c_9", ".a"], ["", "9a", ".", "..", "..a", "a=b", "a b", "a\n", "ä"]),
        (names.is_secret_key, ["9", "a", ".a", "A.b_c-d", "a" * 253], ["", ".", "..", "..a", "a/b", "a" * 254, "a\n"]),
    ],
)
def test_the_grammars_of_names(check: object, good: list[str], bad: list[str]) -> None:
    """Each grammar accepts its shortest, longest and oddest names, and none with one wrong character."""
    assert callable(check)
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


@given(st.text(string.ascii_lowercase + ".-", max_size=12))
def test_subdomains(text: str) -> None:
    """They are those of the apiserver's regular expression."""
    assert names.is_dns_subdomain(text) == bool(SUBDOMAIN.fullmatch(text))
