"""Keys of scratch caches: their grammar and values."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.caches.key import HASH_LENGTH, LONGEST, HashFiles, compile_key, hash_of, key_problem
from senro.domain.errors import PlanError

LITERALS = st.text(st.sampled_from("abcXYZ019._-+=@"), min_size=1, max_size=20)
PATTERNS = st.sampled_from(["go.sum", "b/**", "**/*.lock", "a b", "ä", "vendor/", "x,y)}}"])
CALLS = st.lists(PATTERNS, min_size=1, max_size=3).map(lambda patterns: HashFiles(tuple(patterns)))
BLANKS = st.sampled_from(["", " ", "  ", "\t"])
FILES = st.dictionaries(st.sampled_from(["a", "b/c", "ä", "\udcff"]), st.sampled_from(["sha256:0", "sha256:1"]))


CHARACTERS = "use ASCII letters, digits, . _ - + = @ and {{ hash_files('go.sum') }}"


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, tuple[str | HashFiles, ...]]:
    """A template with at most two calls, as text and as its parts."""
    parts: list[str | HashFiles] = [draw(LITERALS)]
    for call in draw(st.lists(CALLS, max_size=2)):
        parts += [call, draw(LITERALS)]
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        quotes = [draw(st.sampled_from("'\"")) for _ in part.patterns]
        gap = draw(BLANKS)
        listed = f"{gap},{gap}".join(f"{q}{p}{q}" for q, p in zip(quotes, part.patterns, strict=True))
        text += f"{{{{{gap}hash_files{gap}({gap}{listed}{gap}{draw(st.sampled_from(['', ',']))}{gap}){gap}}}}}"
    return text, tuple(parts)


@given(templates())
def test_a_template(made: tuple[str, tuple[str | HashFiles, ...]]) -> None:
    """Its calls are parsed whatever quotes and spaces they have, and the key has the hashes in their place."""
    text, parts = made
    compiled = compile_key(text)
    assert compiled.parts == parts
    assert key_problem(text) == ""
    hashes = dict.fromkeys(compiled.calls, "f" * HASH_LENGTH)
    assert compiled.evaluate(hashes) == "".join(p if isinstance(p, str) else "f" * HASH_LENGTH for p in parts)
    assert compiled.calls == tuple(dict.fromkeys(part for part in parts if isinstance(part, HashFiles)))


@given(st.text(st.sampled_from("ab{}()'\", !/hash_files\0ä*.")) | st.text())
def test_any_text_is_a_key_or_is_refused(text: str) -> None:
    """Any text is either a template whose key is safe in every store, or refused with its problem."""
    problem = key_problem(text)
    if problem:
        with pytest.raises(PlanError) as caught:
            compile_key(text)
        (refusal,) = caught.value.refusals
        assert refusal.rule == "scratch-key"
        assert refusal.message == f"{text!r} {problem}"
        return
    compiled = compile_key(text)
    key = compiled.evaluate(dict.fromkeys(compiled.calls, "0" * HASH_LENGTH))
    assert re.fullmatch(rf"[A-Za-z0-9._+=@-]{{1,{LONGEST}}}", key)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty; write a text such as gomod-{{ hash_files('go.sum') }}"),
        ("a b", f"has ' ' at character 2; {CHARACTERS}"),
        ("a/b", f"has '/' at character 2; {CHARACTERS}"),
        ("a{b", f"has '{{' at character 2; {CHARACTERS}"),
        (
            "x{{ env('A') }}",
            "calls 'env' at character 5; there is only hash_files, as in {{ hash_files('go.sum') }}",
        ),
        ("x{{", "has no call at character 4; there is only hash_files, as in {{ hash_files('go.sum') }}"),
        ("x{{ hash_files }}", "has no `(` at character 16; write {{ hash_files('go.sum') }}"),
        ("{{ hash_files() }}", "hashes no files at character 15; name one, as in {{ hash_files('go.sum') }}"),
        ("{{ hash_files(a) }}", "has no `)` at character 15; quote each pattern and separate them by commas"),
        ("{{ hash_files('a' 'b') }}", "has no `)` at character 19; quote each pattern and separate them by commas"),
        ("{{ hash_files('a') }", "has no `}}` at character 20; end the call as in {{ hash_files('go.sum') }}"),
        (
            "{{ hash_files('!a') }}",
            "has the pattern '!a' at character 15; it is a negation, which there is not; name the files that count",
        ),
        (
            '{{ hash_files("../a") }}',
            "has the pattern '../a' at character 15; it has an empty, `.` or `..` segment and would match nothing",
        ),
        ("{{ hash_files('') }}", "has the pattern '' at character 15; it is empty; leave it out"),
        ("a" * 201, "has 201 characters, counting 64 for each hash; 200 are the most"),
        ("{{ hash_files('a') }}" * 4, "has 256 characters, counting 64 for each hash; 200 are the most"),
    ],
)
def test_what_is_refused_and_where(text: str, problem: str) -> None:
    """A refusal has the problem and the character."""
    assert key_problem(text) == problem


@given(FILES, st.randoms())
def test_the_hash_of_files(files: dict[str, str], random_source: Random) -> None:
    """It depends on every name and content, and not on the order of the files."""
    shuffled = list(files.items())
    random_source.shuffle(shuffled)
    assert hash_of(dict(shuffled)) == hash_of(files)
    assert re.fullmatch(r"[0-9a-f]{64}", hash_of(files))
    for path in files:
        assert hash_of({**files, path: "sha256:2"}) != hash_of(files)
        renamed = {("new" if name == path else name): digest for name, digest in files.items()}
        assert hash_of(renamed) != hash_of(files)
        assert hash_of({name: digest for name, digest in files.items() if name != path}) != hash_of(files)


def test_a_call_as_text() -> None:
    """The text of a call is as it is written."""
    assert str(HashFiles(("go.sum", "b/**"))) == "hash_files('go.sum', 'b/**')"
