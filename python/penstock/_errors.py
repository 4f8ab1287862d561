"""One exception for each of the library's error codes. Each is an Error, and the built-in exception for such an error."""

import os
import re

from . import _penstock


class Error(Exception):
    """Base class of the package's exceptions: the attempted action, its subject, the system's error (`errno`, 0 if there is none), and a
    hint."""

    attempted: str = ""
    subject: str = ""
    hint: str = ""
    message: str = ""
    of_command: str = ""  # the message with the command's options instead of parameters

    def __str__(self) -> str:
        return self.message or super().__str__()


class InvalidArgument(Error, ValueError):
    """The arguments are invalid."""


class Unsupported(Error, OSError):
    """This kernel or machine does not support the operation."""


class NotFound(Error, FileNotFoundError):
    """A file does not exist."""


class PermissionDenied(Error, PermissionError):
    """The system denies access to this user."""


class OutOfMemory(Error, MemoryError):
    """Memory, or the memory budget, does not suffice."""


class OutOfSpace(Error, OSError):
    """A disk is full, or would be."""


class OutOfMappings(Error, MemoryError):
    """The limit vm.max_map_count is reached."""


class IOFailure(Error, OSError):
    """A device or a file system reported an error."""


class Corrupt(Error, ValueError):
    """Data do not match their format."""


class Cancelled(Error, OSError):
    """The other side of a stream cancelled it."""


class Interrupted(Error, OSError):
    """The run was interrupted on request."""


class Unsorted(Error, ValueError):
    """An input that had to be sorted is not."""


# In the order of penstock::ErrorCode.
_CLASSES: tuple[type[Error], ...] = (InvalidArgument, Unsupported, NotFound, PermissionDenied, OutOfMemory, OutOfSpace,
                                     OutOfMappings, IOFailure, Corrupt, Cancelled, Interrupted, Unsorted)


# Options of the command in the library's messages, and their parameters: options that take a value, and flags.
_TAKE_VALUES: dict[str, str] = {}
_FLAGS = {"--header": "header=True", "-o": "output", "-m": "merge()"}
for _row in _penstock.options():
    for _word in _row["words"].split(",") if _row["python"] else ():
        if _row.get("kind") == "bool":
            _FLAGS[_word] = f"{_row['python']}={not _row['default']}"
        elif _word not in _FLAGS:
            _TAKE_VALUES[_word] = _row["python"]
_OPTION = re.compile(r"(?<![^ (])(?:'.*?'(?=[\s,;:.)]|$)|(--?[A-Za-z][a-z-]*)(?:=([0-9]+)| (?!with\b|without\b|alone\b|or\b|and\b|if\b|allows\b)('[^']*'|[^-\s,;)][^\s,;)]*))?)")


def in_python(text: str) -> str:
    """Replaces the command's options in a sentence by the package's parameters. Quoted words are user data, and stay."""
    def word(found: re.Match[str]) -> str:
        option, number, value = found.groups()
        if option is None:
            return found[0]
        if option in _TAKE_VALUES:
            value = number or value
            return f"{_TAKE_VALUES[option]}=" + ("" if value is None else value if value.isdigit() else repr(value.strip("'")))
        rest = "" if number is None and value is None else f" {value}" if number is None else f"={number}"
        if option in _FLAGS:
            return _FLAGS[option].replace("True", number) if number is not None else _FLAGS[option] + rest
        return option + rest

    text = re.sub(r"penstock sort --by COLUMN ('.*?'|FILE) -o OUTPUT", r"sort_table(\1, OUTPUT, by=COLUMN)", text)
    return _OPTION.sub(word, re.sub(r"\bpenstock sort\b", "sort_file()", text))


def exception(code: int, message: str, attempted: str, subject: str, errno: int, hint: str,
              is_fault: bool = False) -> Error:
    """Makes the exception that the extension raises. `is_fault`: as in penstock::Error."""
    kind = _CLASSES[code]
    of_command = message
    cannot = "" if is_fault else "cannot "
    begin, end = f"{cannot}{attempted}", f" (try: {hint})" if hint else ""
    said = f": {os.strerror(errno)}" if errno else ""
    shown = message.removesuffix(begin + said + end)  # the subject as shown, unless characters of other parts are escaped
    attempted, hint = in_python(attempted), in_python(hint)
    if subject.startswith("-"):  # an option
        shown = shown.replace(subject, in_python(subject), 1)
        subject = in_python(subject)
    if shown != message:
        message = f"{shown}{cannot}{attempted}{said}" + (f" (try: {hint})" if hint else "")
    if issubclass(kind, OSError):
        error: Error = kind(errno, os.strerror(errno) if errno else attempted, subject or None)
    else:
        error = kind(message)
    error.message, error.attempted, error.subject, error.hint, error.of_command = message, attempted, subject, hint, of_command
    if not isinstance(error, OSError):
        error.errno = errno  # type: ignore[attr-defined]
    return error


def failure(kind: type[Error], attempted: str, subject: str, hint: str = "") -> Error:
    """Makes an error of the package itself, in the form of the library's errors."""
    message = f"{subject}: cannot {attempted}" + (f" (try: {hint})" if hint else "")
    return exception(_CLASSES.index(kind), message, attempted, subject, 0, hint)
