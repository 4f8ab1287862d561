"""One exception for each of the library's error codes. Each is an Error, and what Python calls such an error, too."""

import os


class Error(Exception):
    """What failed: attempted, on which subject, what the system said (errno, 0 where nothing), what to try (hint)."""

    attempted: str = ""
    subject: str = ""
    hint: str = ""
    message: str = ""

    def __str__(self) -> str:
        return self.message or super().__str__()


class InvalidArgument(Error, ValueError):
    """Something was asked for that cannot be."""


class Unsupported(Error, OSError):
    """This kernel or machine cannot do it."""


class NotFound(Error, FileNotFoundError):
    """No such file."""


class PermissionDenied(Error, PermissionError):
    """The system refuses it to this user."""


class OutOfMemory(Error, MemoryError):
    """Memory, or the memory budget, does not suffice."""


class OutOfSpace(Error, OSError):
    """A disk is full, or would be."""


class OutOfMappings(Error, MemoryError):
    """vm.max_map_count is reached."""


class IOFailure(Error, OSError):
    """A device or a file system reported an error."""


class Corrupt(Error, ValueError):
    """Data are not what their format says."""


class Cancelled(Error, OSError):
    """The other side of a stream gave up."""


class Interrupted(Error, OSError):
    """The run was asked to stop."""


class Unsorted(Error, ValueError):
    """Input that had to be sorted is not."""


# In the order of penstock::ErrorCode.
_CLASSES: tuple[type[Error], ...] = (InvalidArgument, Unsupported, NotFound, PermissionDenied, OutOfMemory, OutOfSpace,
                                     OutOfMappings, IOFailure, Corrupt, Cancelled, Interrupted, Unsorted)


def exception(code: int, message: str, attempted: str, subject: str, errno: int, hint: str) -> Error:
    """What the extension raises."""
    kind = _CLASSES[code]
    if issubclass(kind, OSError):
        error: Error = kind(errno, os.strerror(errno) if errno else attempted, subject or None)
    else:
        error = kind(message)
    error.message, error.attempted, error.subject, error.hint = message, attempted, subject, hint
    if not isinstance(error, OSError):
        error.errno = errno  # type: ignore[attr-defined]
    return error
