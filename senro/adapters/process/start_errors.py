"""Explains why a command could not be started, and what to do."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from senro.ports.processes import Command


def start_error_message(command: Command, error: OSError | ValueError) -> str:
    """The message for an error of `open_process`. It names program and folder, never the value of a variable."""
    program = command.argv[0] if command.argv else ""
    head = f"cannot run {program!r}"
    if not program:
        return f"{head}: the command is empty; give the step a program to run"
    if not isinstance(error, OSError):
        # subprocess refuses NUL bytes, '=' in a variable's name and text that this locale cannot encode.
        return f"{head}: {error}; no argument, folder or variable may contain that"
    return f"{head}: {_folder(command.cwd) or _program(program, command, error)}"


def _folder(cwd: str) -> str:
    """What is wrong with the folder; empty if it can be entered."""
    folder = Path(cwd)
    if not cwd or not os.path.lexists(folder):
        return f"its folder {cwd!r} does not exist; create it in an earlier step, or correct the step's workdir"
    if not folder.is_dir():
        return f"{cwd!r} is not a folder; correct the step's workdir"
    if not os.access(folder, os.X_OK):
        return f"its folder {cwd!r} cannot be entered by this user; change its mode, or the step's workdir"
    return ""


def _program(program: str, command: Command, error: OSError) -> str:
    cwd = command.cwd
    named = "/" in program
    found = None if named else shutil.which(program, path=command.env.get("PATH"))
    path = Path(cwd, found or program)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR if not named and not found:
            return "there is no such program in PATH; install it, or give its path"
        case errno.ENOENT if path.exists():
            return "the interpreter in its first line (or its ELF header) does not exist; install it"
        case errno.ENOENT | errno.ENOTDIR:
            return f"there is no such file in {cwd!r}; check the path, and that an earlier step made it"
        case errno.EACCES if path.is_dir():
            return "it is a folder; name the program in it"
        case errno.EACCES:
            return "it is not executable; set its executable bit (chmod +x), or name its interpreter first"
        case errno.ENOEXEC:
            return "it is not a program for this machine; a script needs a first line such as '#!/bin/sh'"
        case errno.E2BIG:
            return "its arguments and environment exceed the limit of this machine; pass the data in a file"
        case errno.EAGAIN | errno.ENOMEM | errno.EMFILE | errno.ENFILE:
            return (
                f"this machine has no room for another process ({error.strerror}); "
                "run fewer steps at once, or raise the limit (ulimit -u, ulimit -n)"
            )
        case _:
            return f"{error.strerror}; check that this user can run it by hand in {cwd!r}"
