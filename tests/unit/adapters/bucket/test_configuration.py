"""`SENRO_REMOTE_SCRATCH` and the variables that begin with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.adapters.bucket import Location, read_location
from senro.adapters.bucket.configuration import KNOWN
from senro.domain.errors import ConfigurationError

S3 = {"SENRO_REMOTE_SCRATCH": "s3://bucket/a/b"}


def refusals(environ: dict[str, str]) -> list[tuple[str, str]]:
    """Where and by which rule the variables are refused."""
    with pytest.raises(ConfigurationError) as caught:
        read_location(environ)
    for refusal in caught.value.refusals:
        assert ";" in refusal.message
    return [(refusal.where.removeprefix("SENRO_REMOTE_SCRATCH"), refusal.rule) for refusal in caught.value.refusals]


@pytest.mark.parametrize(
    "environ", [{}, {"SENRO_REMOTE_SCRATCH": ""}, {"SENRO_REMOTE_SCRATCH": "  "}, {"AWS_REGION": "x"}]
)
def test_no_place(environ: dict[str, str]) -> None:
    """Without the variable, or with an empty one, nothing is shared."""
    assert read_location(environ) is None


@pytest.mark.parametrize(
    ("value", "location", "name"),
    [
        ("s3://bucket/a/b", Location("s3", "bucket", "a/b"), "s3://bucket/a/b"),
        ("s3://bucket/a/b/", Location("s3", "bucket", "a/b"), "s3://bucket/a/b"),
        ("s3://bucket", Location("s3", "bucket", ""), "s3://bucket"),
        ("gs://my_bucket.acme.com/x", Location("gs", "my_bucket.acme.com", "x"), "gs://my_bucket.acme.com/x"),
        ("az://container/x", Location("az", "container", "x"), "az://container/x"),
        ("file:///srv/cache/", Location("file", "", "/srv/cache"), "file:///srv/cache"),
        ("file://localhost/srv/a%20b", Location("file", "", "/srv/a b"), "file:///srv/a b"),
        ("file:///srv/a b", Location("file", "", "/srv/a b"), "file:///srv/a b"),
    ],
)
def test_places(value: str, location: Location, name: str) -> None:
    """Each kind of place is read as it is written, and says itself in messages."""
    found = read_location({"SENRO_REMOTE_SCRATCH": value})
    assert found == location
    assert found.name == name


def test_everything_set() -> None:
    """Endpoint, region, timeout and read-only are what they say."""
    environ = S3 | {
        "SENRO_REMOTE_SCRATCH_ENDPOINT": "http://minio:9000/",
        "SENRO_REMOTE_SCRATCH_REGION": "eu-central-1",
        "SENRO_REMOTE_SCRATCH_TIMEOUT": "2.5",
        "SENRO_REMOTE_SCRATCH_READ_ONLY": "True",
    }
    assert read_location(environ) == Location(
        "s3", "bucket", "a/b", endpoint="http://minio:9000", region="eu-central-1", timeout=2.5, read_only=True
    )


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("bucket", "scheme"),
        ("http://bucket/x", "scheme"),
        ("S3://bucket", "scheme"),
        ("memory:///", "scheme"),
        ("s3://", "bucket"),
        ("s3:///x", "bucket"),
        ("s3://b", "bucket"),
        ("s3://-bucket", "bucket"),
        ("s3://key:secret-value@bucket/x", "userinfo"),
        ("s3://bucket/a?x=secret-value", "url"),
        ("s3://bucket/a#x", "url"),
        ("s3://bucket/a\nb", "url"),
        ("s3://bucket/a//b", "prefix"),
        ("s3://bucket/../b", "prefix"),
        ("s3://bucket/a/./b", "prefix"),
        ("s3://bucket/a%2fb", "prefix"),
        ("s3://bucket/ä", "prefix"),
        ("file://host/srv", "url"),
        ("file://", "url"),
        ("file:///", "url"),
        ("file:///a/../b", "url"),
        ("file:///a%00", "url"),
    ],
)
def test_places_that_cannot_be(value: str, rule: str) -> None:
    """What is no place is refused by its rule; the value is not quoted, since it may hold a password."""
    assert refusals({"SENRO_REMOTE_SCRATCH": value}) == [("", rule)]
    with pytest.raises(ConfigurationError) as caught:
        read_location({"SENRO_REMOTE_SCRATCH": value})
    assert "secret-value" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "where", "rule"),
    [
        ({"SENRO_REMOTE_SCRATCH_REGON": "x"}, "_REGON", "unknown"),
        ({"SENRO_REMOTE_SCRATCH_PROXY": "x"}, "_PROXY", "unknown"),
        ({"SENRO_REMOTE_SCRATCHES": "x"}, "ES", "unknown"),
        ({"SENRO_REMOTE_SCRATCH_TIMEOUT": "30s"}, "_TIMEOUT", "timeout"),
        ({"SENRO_REMOTE_SCRATCH_TIMEOUT": "0"}, "_TIMEOUT", "timeout"),
        ({"SENRO_REMOTE_SCRATCH_TIMEOUT": "-1"}, "_TIMEOUT", "timeout"),
        ({"SENRO_REMOTE_SCRATCH_TIMEOUT": "nan"}, "_TIMEOUT", "timeout"),
        ({"SENRO_REMOTE_SCRATCH_TIMEOUT": "3601"}, "_TIMEOUT", "timeout"),
        ({"SENRO_REMOTE_SCRATCH_READ_ONLY": "maybe"}, "_READ_ONLY", "choice"),
        ({"SENRO_REMOTE_SCRATCH_REGION": "a b"}, "_REGION", "region"),
        ({"SENRO_REMOTE_SCRATCH_ENDPOINT": "minio:9000"}, "_ENDPOINT", "url"),
        ({"SENRO_REMOTE_SCRATCH_ENDPOINT": "https://"}, "_ENDPOINT", "url"),
        ({"SENRO_REMOTE_SCRATCH_ENDPOINT": "https://h:99999"}, "_ENDPOINT", "url"),
        ({"SENRO_REMOTE_SCRATCH_ENDPOINT": "https://h:0"}, "_ENDPOINT", "url"),
        ({"SENRO_REMOTE_SCRATCH_ENDPOINT": "https://u:p@h"}, "_ENDPOINT", "url"),
        ({"SENRO_REMOTE_SCRATCH_ENDPOINT": "https://h/?q"}, "_ENDPOINT", "url"),
        ({"SENRO_REMOTE_SCRATCH_ENDPOINT": "https://h/a b"}, "_ENDPOINT", "url"),
        (
            {"SENRO_REMOTE_SCRATCH": "file:///x", "SENRO_REMOTE_SCRATCH_ENDPOINT": "https://h"},
            "_ENDPOINT",
            "contradiction",
        ),
        ({"SENRO_REMOTE_SCRATCH": "gs://bucket", "SENRO_REMOTE_SCRATCH_REGION": "x"}, "_REGION", "contradiction"),
        ({"SENRO_REMOTE_SCRATCH": "", "SENRO_REMOTE_SCRATCH_TIMEOUT": "1"}, "_TIMEOUT", "missing"),
    ],
)
def test_settings_that_cannot_be(environ: dict[str, str], where: str, rule: str) -> None:
    """One mistake is one refusal: it names its variable and says what to write."""
    assert refusals(S3 | environ) == [(where, rule)]


def test_a_name_that_is_nearly_right() -> None:
    """A variable that is misspelt is told the right name."""
    with pytest.raises(ConfigurationError, match="did you mean SENRO_REMOTE_SCRATCH_REGION"):
        read_location(S3 | {"SENRO_REMOTE_SCRATCH_REGON": "x"})


def test_everything_wrong_at_once() -> None:
    """All that is wrong is told at once."""
    environ = {
        "SENRO_REMOTE_SCRATCH": "s3://bucket/a",
        "SENRO_REMOTE_SCRATCH_ENDPOINT": "nonsense",
        "SENRO_REMOTE_SCRATCH_REGION": "a b",
        "SENRO_REMOTE_SCRATCH_TIMEOUT": "soon",
        "SENRO_REMOTE_SCRATCH_READ_ONLY": "maybe",
        "SENRO_REMOTE_SCRATCH_UNKNOWN": "1",
    }
    assert len(refusals(environ)) == 5


@given(st.dictionaries(st.sampled_from([*KNOWN, "SENRO_REMOTE_SCRATCH_X"]), st.text(max_size=30)))
def test_any_values(environ: dict[str, str]) -> None:
    """Whatever the variables hold, there is a location, none, or a refusal for each problem."""
    try:
        location = read_location(environ)
    except ConfigurationError as error:
        location, problems = None, error.refusals
    else:
        problems = ()
    assert problems or location is None or location.name
