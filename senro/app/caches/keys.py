"""Evaluates the keys of a plan's scratch caches, once before the run begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from senro.domain.caches.key import CacheKeys, HashFiles, KeyTemplate, compile_key, hash_of
from senro.domain.errors import ConfigurationError, Refusal, TreeError
from senro.domain.pipeline.workspace import ScratchCache
from senro.domain.plan.plan import Plan
from senro.domain.tree.excludes import DEFAULT_EXCLUDES, compile_excludes
from senro.domain.tree.run_folders import runs_inside
from senro.ports.scratch import KeyFiles


async def evaluate_keys(plan: Plan, files: KeyFiles, base: str, run_dir: str) -> Mapping[str, CacheKeys]:
    """The keys of each cache of the plan by its name, from the files of the folder `base`.

    Ignores files that workspaces exclude by default, and the runs in `run_dir`. Raises `ConfigurationError` with each
    call that matches no file: its key would never change, and the first entry would be used for ever.
    """
    exclude = (*DEFAULT_EXCLUDES, *runs_inside(base, run_dir))
    refusals: list[Refusal] = []
    templates: dict[str, list[KeyTemplate]] = {}
    callers: dict[HashFiles, ScratchCache] = {}
    for cache in plan.scratches:
        templates[cache.name] = [compile_key(text) for text in (cache.key, *cache.restore_keys)]
        for template in templates[cache.name]:
            callers |= {call: cache for call in template.calls if call not in callers}
    hashes: dict[HashFiles, str] = {}
    found = await _read_files(files, base, callers, exclude)
    for call, cache in callers.items():
        try:
            contents = await files.digests(base, call.patterns, exclude=exclude) if found is None else found[call]
        except TreeError as error:
            refusals.append(_refusal(cache, f"{call} cannot be evaluated: {error}"))
            continue
        if not contents:
            message = f"no file of {base} matches {call}; name existing files, or remove it from the key"
            refusals.append(_refusal(cache, message))
        hashes[call] = hash_of(contents)
    if refusals:
        raise ConfigurationError(tuple(refusals))
    return {
        name: CacheKeys(key.evaluate(hashes), tuple(prefix.evaluate(hashes) for prefix in prefixes))
        for name, (key, *prefixes) in templates.items()
    }


async def _read_files(
    files: KeyFiles, base: str, calls: Collection[HashFiles], exclude: Sequence[str]
) -> Mapping[HashFiles, Mapping[str, str]] | None:
    """The files of each call, reading the folder once; None if a file cannot be read: then evaluate each call alone."""
    patterns = list(dict.fromkeys(pattern for call in calls for pattern in call.patterns))
    try:
        contents = await files.digests(base, patterns, exclude=exclude) if patterns else {}
    except TreeError:
        return None
    return {call: _matching(call, contents) for call in calls}


def _matching(call: HashFiles, contents: Mapping[str, str]) -> Mapping[str, str]:
    wanted = compile_excludes(call.patterns)
    return {path: digest for path, digest in contents.items() if wanted.matches(path, directory=False)}


def _refusal(cache: ScratchCache, message: str) -> Refusal:
    return Refusal(f"scratch cache {cache.name}", "scratch-files", message)
