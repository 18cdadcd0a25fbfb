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
    """The variable and the rule of each refusal."""
    with pytest.raises(ConfigurationError) as caught:
        read_location(environ)
    for refusal in caught.value.refusals:
        assert ";" in refusal.message
    return [(refusal.where.removeprefix("SENRO_REMOTE_SCRATCH"), refusal.rule) for refusal in caught.value.refusals]


@pytest.mark.parametrize(
    "environ", [{}, {"SENRO_REMOTE_SCRATCH": ""}, {"SENRO_REMOTE_SCRATCH": "  "}, {"AWS_REGION": "x"}]
)
def test_without_a_location_nothing_is_shared(environ: dict[str, str]) -> None:
    """Without the variable, or with an empty one, there is no location."""
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
def test_each_scheme_is_read(value: str, location: Location, name: str) -> None:
    """Each kind of location is read, and its name is its URL."""
    found = read_location({"SENRO_REMOTE_SCRATCH": value})
    assert found == location
    assert found.name == name


def test_all_settings_are_read() -> None:
    """Endpoint, region, timeout and read-only are read."""
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
def test_invalid_location_is_refused(value: str, rule: str) -> None:
    """An invalid location is refused by its rule, without quoting the value, which may contain a password."""
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
def test_invalid_setting_is_refused(environ: dict[str, str], where: str, rule: str) -> None:
    """Each invalid setting is one refusal that names its variable and says what to write."""
    assert refusals(S3 | environ) == [(where, rule)]


def test_misspelt_variable_gets_a_hint() -> None:
    """The refusal of a misspelt variable names the right one."""
    with pytest.raises(ConfigurationError, match="did you mean SENRO_REMOTE_SCRATCH_REGION"):
        read_location(S3 | {"SENRO_REMOTE_SCRATCH_REGON": "x"})


def test_all_problems_are_reported() -> None:
    """All problems are reported at once."""
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
def test_any_values_are_read_or_refused(environ: dict[str, str]) -> None:
    """Any values result in a location, in none, or in a refusal for each problem."""
    try:
        location = read_location(environ)
    except ConfigurationError as error:
        location, problems = None, error.refusals
    else:
        problems = ()
    assert problems or location is None or location.name
