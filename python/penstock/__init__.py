"""Data larger than memory: files as arrays, and sorts of memory and of files within a hard budget of memory."""

import importlib as _importlib
import sys as _sys


def _is_main_interpreter() -> bool:
    # By the module's name since CPython 3.13, and by the one before.
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = _importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True


if not getattr(_sys, "_is_gil_enabled", lambda: True)():
    raise ImportError("penstock needs a Python with a GIL: use the build of Python without the letter t")
if not _is_main_interpreter():
    raise ImportError("penstock works in the main interpreter of a process alone: use threads, or processes")

from ._errors import (Cancelled, Corrupt, Error, Interrupted, InvalidArgument, IOFailure, NotFound, OutOfMappings, OutOfMemory,
                      OutOfSpace, PermissionDenied, Unsorted, Unsupported)
from ._files import FileOptions, Report, check, group, join, merge, partition_files, plan, sort_file
from ._memory import Partitions, argsort, partition, sort, top_k
from ._penstock import version as __version__
from ._rewire import Snapshot, Table, Vector
from ._stream import Stream, open
from ._tables import Batches, merge_tables, partition_table, sort_batches, sort_table, top_table
from ._trace import Trace, trace

__all__ = ["Batches", "Cancelled", "Corrupt", "Error", "FileOptions", "IOFailure", "Interrupted", "InvalidArgument", "NotFound",
           "OutOfMappings", "OutOfMemory", "OutOfSpace", "Partitions", "PermissionDenied", "Report", "Snapshot", "Stream", "Table",
           "Trace", "Unsorted", "Unsupported", "Vector", "argsort", "check", "group", "join", "merge", "merge_tables", "open", "partition",
           "partition_files", "partition_table", "plan", "sort", "sort_batches", "sort_file", "sort_table", "top_k", "top_table", "trace"]
