"""What the system refuses, as one sentence: a path, a full disk, memory, open files, threads."""

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
LOCALE = "holds bytes that are no text in this locale. Use one with UTF-8, such as LC_ALL=C.UTF-8."
STREAM = "standard input or output: closed, or open the other way round. Check the command's redirections."
NUMBERS = {errno.ENOMEM: MEMORY, errno.EMFILE: FILES, errno.ENFILE: FILES, errno.EBADF: STREAM}
SAYINGS = {  # what libraries say in errors of their own kinds
    "allocate memory": MEMORY,
    "failed to map segment": MEMORY,
    "out of memory": MEMORY,
    "Too many open files": FILES,
    "can't start new thread": THREADS,
}


def sentence(error: BaseException) -> str | None:
    """What to tell a user, or None where the error is the program's own."""
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return f"{error.object[max(error.start - 20, 0) : error.end + 20]!a}: {LOCALE}"
    if isinstance(error, OSError) and error.errno in PLACES:
        return f"{error.filename or 'output'}: {error.strerror}. Check the path, its rights and the space left there."
    return next(filter(None, map(_exhausted, _chain(error))), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it came of."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        yield one
        one = one.__cause__ or one.__context__


def _exhausted(error: BaseException) -> str | None:
    """What the system had too little of, where that is the reason."""
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, OSError) and error.errno in NUMBERS:
        return NUMBERS[error.errno]
    if isinstance(error, ImportError | RuntimeError | OSError):
        return next((said for part, said in SAYINGS.items() if part in str(error)), None)
    return None
