"""Why a command could not be started, in a sentence that says what to do."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from senro.ports.processes import Command


def start_error_message(command: Command, error: OSError | ValueError) -> str:
    """The sentence for what `open_process` raised. It names the program and the folder, never a variable's value."""
    program = command.argv[0] if command.argv else ""
    head = f"cannot run {program!r}"
    if not program:
        return f"{head}: the command is empty; give the step a program to run"
    if not isinstance(error, OSError):
        # subprocess refuses NUL bytes, '=' in a variable's name and text that has no bytes in this locale.
        return f"{head}: {error}; no argument, folder or variable may hold that"
    return f"{head}: {_folder(command.cwd) or _program(program, command, error)}"


def _folder(cwd: str) -> str:
    """What is wrong with the folder; empty where it can be entered."""
    folder = Path(cwd)
    if not cwd or not os.path.lexists(folder):
        return f"its folder {cwd!r} does not exist; create it in an earlier step, or correct the step's workdir"
    if not folder.is_dir():
        return f"{cwd!r} is not a folder; correct the step's workdir"
    if not os.access(folder, os.X_OK):
        return f"its folder {cwd!r} may not be entered by this user; change its mode, or the step's workdir"
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
            return "the interpreter that its first line (or its ELF header) names does not exist; install that"
        case errno.ENOENT | errno.ENOTDIR:
            return f"there is no such file in {cwd!r}; check the path, and that an earlier step made it"
        case errno.EACCES if path.is_dir():
            return "it is a folder; name the program in it"
        case errno.EACCES:
            return "it may not be executed; set its executable bit (chmod +x), or name its interpreter first"
        case errno.ENOEXEC:
            return "it is no program for this machine; a script needs a first line such as '#!/bin/sh'"
        case errno.E2BIG:
            return "its arguments and environment are larger than this machine takes; pass the data in a file"
        case errno.EAGAIN | errno.ENOMEM | errno.EMFILE | errno.ENFILE:
            return (
                f"this machine has no room for another process ({error.strerror}); "
                "run fewer steps at once, or raise the limit (ulimit -u, ulimit -n)"
            )
        case _:
            return f"{error.strerror}; check that this user can run it by hand in {cwd!r}"
