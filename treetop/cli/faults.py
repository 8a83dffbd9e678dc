"""Errors of the operating system as one sentence: paths, full disks, memory, open files, threads."""

from __future__ import annotations

import errno
from collections.abc import Iterator

PLACES = {
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EINVAL,
}  # fmt: skip
MEMORY = "out of memory. Use less data or a smaller preset, or set --budget memory=..."
FILES = "too many open files. Raise the limit (ulimit -n), or end other programs."
THREADS = "no more threads can be started. Raise the limits (ulimit -u, ulimit -v), or give --threads 1."
LOCALE = "contains bytes that are not valid text in this locale. Use one with UTF-8, such as LC_ALL=C.UTF-8."
STREAM = "standard input or output: closed, or opened in the wrong direction. Check the command's redirections."
NUMBERS = {errno.ENOMEM: MEMORY, errno.EMFILE: FILES, errno.ENFILE: FILES, errno.EBADF: STREAM}
LIBRARY_ERRORS = {  # messages in the libraries' own error types
    "allocate memory": MEMORY,
    "failed to map segment": MEMORY,
    "out of memory": MEMORY,
    "Too many open files": FILES,
    "can't start new thread": THREADS,
}


def sentence(error: BaseException) -> str | None:
    """The message for the user, or None if the error is a bug."""
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return f"{error.object[max(error.start - 20, 0) : error.end + 20]!a}: {LOCALE}"
    if isinstance(error, OSError) and error.errno in PLACES:
        return (
            f"{error.filename or 'output'}: {error.strerror}. Check the path, its permissions and the free disk space."
        )
    return next(filter(None, map(_exhausted, _chain(error))), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        yield one
        one = one.__cause__ or one.__context__


def _exhausted(error: BaseException) -> str | None:
    """The message for an exhausted resource, if that is the cause."""
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, OSError) and error.errno in NUMBERS:
        return NUMBERS[error.errno]
    if isinstance(error, ImportError | RuntimeError | OSError):
        return next((pattern for part, pattern in LIBRARY_ERRORS.items() if part in str(error)), None)
    return None
