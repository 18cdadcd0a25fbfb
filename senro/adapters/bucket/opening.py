"""Opens the store at a `Location`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from senro.adapters.bucket.configuration import PLACE, Location
from senro.domain.errors import ConfigurationError, Refusal

if TYPE_CHECKING:
    from senro.adapters.bucket.store import BucketScratchStore
    from senro.ports.trees import Trees

_CREDENTIALS = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
"""The prefix of each store's usual variables."""

_CONNECT_SECONDS = 5.0


def open_scratch_store(
    location: Location, environ: Mapping[str, str], *, trees: Trees, token: Callable[[], str]
) -> BucketScratchStore:
    """Open the store. Sends nothing: call `check` of the store next.

    obstore also reads the usual variables of the process environment, which cannot be prevented; those in `environ`
    take precedence. Raises `ConfigurationError` if obstore is not installed or refuses the location or a variable.
    """
    try:
        import obstore  # noqa: F401, PLC0415 - an extra, loaded only if a shared store is configured
    except ImportError:
        message = "needs obstore; install senro[scratch]"
        raise ConfigurationError((Refusal(PLACE, "extra", message),)) from None
    from senro.adapters.bucket.objects import Bucket  # noqa: PLC0415 - as above
    from senro.adapters.bucket.store import BucketScratchStore  # noqa: PLC0415 - as above

    try:
        store = _store(location, environ)
    except Exception as error:  # noqa: BLE001 - obstore raises its own errors, and several built-in ones
        problem = _problem(location, error)
    else:
        bucket = Bucket(store, location.name, location.timeout)
        return BucketScratchStore(bucket, trees, token, read_only=location.read_only)
    raise ConfigurationError((problem,))


def _problem(location: Location, error: Exception) -> Refusal:
    """The refusal for an exception of obstore, whose text may quote a value and is not passed on."""
    if location.scheme == "file":
        message = f"{location.prefix} is not a folder that can be opened; create or mount it"
        return Refusal(PLACE, "bucket", message)
    usual = _CREDENTIALS[location.scheme]
    what = "the credentials cannot be read" if "Credential" in str(error) else "a setting is missing or cannot be used"
    return Refusal(PLACE, "settings", f"{location.name} cannot be used: {what}; check the variables {usual}...")


def _store(location: Location, environ: Mapping[str, str]) -> Any:
    from obstore.store import AzureStore, GCSStore, LocalStore, S3Store  # noqa: PLC0415 - as above

    from senro.adapters.bucket.objects import RETRIES  # noqa: PLC0415 - as above

    if location.scheme == "file":
        return LocalStore(location.prefix)
    config = {
        name.lower(): value
        for name, value in environ.items()
        if name.startswith(_CREDENTIALS[location.scheme]) and value
    }
    if location.endpoint:
        config |= {_ENDPOINT_KEYS[location.scheme]: location.endpoint}
    if location.region:
        config["aws_region"] = location.region
    options = {
        "allow_http": location.endpoint.startswith("http://"),
        "timeout": timedelta(seconds=location.timeout),
        "connect_timeout": timedelta(seconds=min(location.timeout, _CONNECT_SECONDS)),
    }
    retries = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=location.timeout)}
    kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    while True:
        try:
            return kinds[location.scheme](
                location.bucket,
                prefix=location.prefix or None,
                config=config,
                client_options=options,
                retry_config=retries,
            )
        except Exception as error:
            # obstore refuses variables that it does not know, such as AWS_PROFILE, one at a time: leave it out.
            unknown = re.search(r"Configuration key: '([^']+)'", str(error))
            if unknown is None or unknown[1] not in config:
                raise
            del config[unknown[1]]


# These take precedence over all other variables that name an endpoint.
_ENDPOINT_KEYS = {"s3": "aws_endpoint_url_s3", "gs": "google_base_url", "az": "azure_storage_endpoint"}
