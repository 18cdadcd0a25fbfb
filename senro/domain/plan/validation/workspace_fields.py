"""The rules for a workspace and a scratch cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, cast

from senro.domain.caches.key import key_problem
from senro.domain.kube.names import is_dns_label
from senro.domain.kube.quantities import parse_quantity
from senro.domain.pipeline.workspace import Links, Scope, ScratchCache, Workspace
from senro.domain.plan.validation.field_reader import FieldReader, is_instance, quote
from senro.domain.tree.excludes import exclude_refusals

_LARGEST: Final = 2**63 - 1


@dataclass(slots=True)
class Known:
    """The workspaces and caches that were read before, by `id()` of their value in the pipeline."""

    workspaces: dict[int, Workspace] = field(default_factory=dict)
    caches: dict[int, ScratchCache] = field(default_factory=dict)


def read_workspace(value: object, reader: FieldReader, place: int, known: Known) -> Workspace:
    """The workspace of entry `place` of a step's mounts, which is refused at most once."""
    key = id(value)
    if key not in known.workspaces:
        known.workspaces[key] = _workspace(value, reader, place)
    return known.workspaces[key]


def read_cache(value: object, reader: FieldReader, place: int, known: Known) -> ScratchCache:
    """The scratch cache of entry `place` of a step's mounts, which is refused at most once."""
    key = id(value)
    if key not in known.caches:
        known.caches[key] = _cache(value, reader, place)
    return known.caches[key]


def _workspace(value: object, reader: FieldReader, place: int) -> Workspace:
    if not is_instance(value, Workspace):
        reader.refuse("type", f"the workspace of entry {place} of mounts is {quote(value)}; write a senro.Workspace")
        return Workspace("")
    name = _name(value.name, "workspace", "'src'", reader)
    what = f"of the workspace {quote(name)}"
    path = None if value.path is None else reader.path(value.path, f"the path {what}")
    if path == "":
        reader.refuse("workspace-path", f"the path {what} is empty; write '.' for the working folder, or leave it out")
    exclude = reader.texts(value.exclude, f"exclude {what}")
    for refusal in exclude_refusals(reader.where, exclude):
        reader.refuse(refusal.rule, f"{refusal.message} ({what.removeprefix('of ')})")
    scope = reader.one_of(value.scope, f"the scope {what}", ("run", "step", "persistent"), "workspace-scope")
    links = reader.one_of(value.links, f"links {what}", ("refuse", "keep"), "workspace-links")
    preserved = reader.flag(value.preserve_symlinks, f"preserve_symlinks {what}")
    if links == "keep" and not preserved:
        reader.refuse(
            "workspace-links",
            f"links='keep' {what} keeps links that lead out of it, and preserve_symlinks=False replaces every link by "
            "what it leads to; choose one",
        )
    age, size = _bounds(value, what, reader)
    return Workspace(
        name,
        path=path,
        scope=cast("Scope", scope),
        exclude=exclude,
        links=cast("Links", links),
        preserve_symlinks=preserved,
        max_age=age,
        max_size=size,
    )


def _bounds(value: Workspace, what: str, reader: FieldReader) -> tuple[float | None, int | None]:
    """Both bounds of a persistent workspace, in seconds and bytes. Other workspaces may have none."""
    if value.scope != "persistent":
        for bound, given in (("max_age", value.max_age), ("max_size", value.max_size)):
            if given is not None:
                reader.refuse(
                    "workspace-bounds", f"{bound} {what} bounds a scope='persistent' workspace only; leave it out"
                )
        return None, None
    for bound, given in (("max_age", value.max_age), ("max_size", value.max_size)):
        if given is None:
            reader.refuse(
                "workspace-bounds",
                f"{bound} {what} is missing: a persistent workspace lives until it exceeds a bound, so it needs both "
                "max_age= and max_size=",
            )
    age = None if value.max_age is None else reader.seconds(value.max_age, f"max_age {what}", "workspace-bounds")
    return age, None if value.max_size is None else _size(value.max_size, f"max_size {what}", reader)


def _size(value: object, what: str, reader: FieldReader) -> int:
    if is_instance(value, str):
        quantity = parse_quantity(str.__str__(value))
        value = None if quantity is None or quantity.denominator != 1 else quantity.numerator
    if is_instance(value, int) and not is_instance(value, bool) and 1 <= value <= _LARGEST:
        return int(value)
    reader.refuse("workspace-bounds", f"{what} is not a size; write bytes, or a quantity such as '10Gi'")
    return 1


def _cache(value: object, reader: FieldReader, place: int) -> ScratchCache:
    if not is_instance(value, ScratchCache):
        reader.refuse("type", f"the cache of entry {place} of mounts is {quote(value)}; write a senro.ScratchCache")
        return ScratchCache("", key="x")
    name = _name(value.name, "scratch cache", "'gomod'", reader)
    what = f"of the scratch cache {quote(name)}"
    prefixes = reader.texts(value.restore_keys, f"restore_keys {what}")
    return ScratchCache(
        name,
        key=_key(reader.text(value.key, f"the key {what}"), f"the key {what}", reader),
        restore_keys=tuple(
            _key(prefix, f"entry {place} of restore_keys {what}", reader) for place, prefix in enumerate(prefixes)
        ),
    )


def _key(text: str, what: str, reader: FieldReader) -> str:
    problem = key_problem(text)
    if not problem:
        return text
    reader.refuse("scratch-key", f"{what} {problem}")
    return "x"


def _name(value: object, kind: str, example: str, reader: FieldReader) -> str:
    name = reader.text_or_none(value, f"a {kind}'s name")
    if name is not None and not is_dns_label(name):
        reader.refuse(
            f"{kind.split(maxsplit=1)[0]}-name",
            f"the {kind} name {quote(name)} is not up to 63 lower-case letters, digits and `-`, with no `-` at an end; "
            f"choose one such as {example}",
        )
        return ""
    return name or ""
