"""The requests to the apiserver, by httpx. No other package of senro uses HTTP."""

from senro.adapters.apiserver.cluster import connect
from senro.adapters.apiserver.configuration import Configuration, read_configuration
from senro.adapters.apiserver.watch import watch_pod

__all__ = ["Configuration", "connect", "read_configuration", "watch_pod"]
