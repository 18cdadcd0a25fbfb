"""The keys of a plan's scratch caches, evaluated once, before the run begins."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from senro.domain.errors import ConfigurationError, Refusal, TreeError
from senro.domain.excludes import DEFAULT_EXCLUDES
from senro.domain.plan import Plan
from senro.domain.scratch_key import HashFiles, compile_key, hash_of
from senro.domain.workspace import ScratchCache
from senro.ports.scratch import KeyFiles


@dataclass(frozen=True, slots=True)
class CacheKeys:
    """What a cache's key and its restore keys came to."""

    key: str
    prefixes: tuple[str, ...] = ()


async def evaluate_keys(plan: Plan, files: KeyFiles, base: str, run_dir: str) -> Mapping[str, CacheKeys]:
    """The keys of each cache of the plan by its name, from the files of the folder `base`.

    Raises `ConfigurationError` with each call that hashes nothing: a key that can never change again would keep its
    first entry for ever. What workspaces leave behind, and the runs in `run_dir`, count nowhere.
    """
    inside = posixpath.relpath(posixpath.join(base, run_dir), base)
    exclude = DEFAULT_EXCLUDES if inside.split("/")[0] in (".", "..") else (*DEFAULT_EXCLUDES, f"{inside}/")
    refusals: list[Refusal] = []
    templates = {}
    hashes: dict[HashFiles, str] = {}
    for cache in plan.scratches:
        key, prefixes = compile_key(cache.key), [compile_key(prefix) for prefix in cache.restore_keys]
        for call in dict.fromkeys(call for template in (key, *prefixes) for call in template.calls):
            if call not in hashes:
                try:
                    contents = await files.digests(base, call.patterns, exclude=exclude)
                except TreeError as error:
                    refusals.append(_refusal(cache, f"{call} cannot be evaluated: {error}"))
                    continue
                if not contents:
                    message = f"no file of {base} matches {call}; name files that are there, or leave it out of the key"
                    refusals.append(_refusal(cache, message))
                hashes[call] = hash_of(contents)
        templates[cache.name] = key, prefixes
    if refusals:
        raise ConfigurationError(tuple(refusals))
    return {
        name: CacheKeys(key.evaluate(hashes), tuple(prefix.evaluate(hashes) for prefix in prefixes))
        for name, (key, prefixes) in templates.items()
    }


def _refusal(cache: ScratchCache, message: str) -> Refusal:
    return Refusal(f"scratch cache {cache.name}", "scratch-files", message)
