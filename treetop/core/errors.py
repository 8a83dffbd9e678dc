"""Every error treetop raises on purpose.

    TreetopError
    ├── InputError (ValueError)          texts, labels or files of the user are wrong
    │   ├── DataError                    a row of a data file; carries file and line
    │   │   └── BadRow                   one that reading can leave out
    │   └── LabelError                   an unknown or ambiguous label
    ├── ConfigError (ValueError)         a setting is unknown, of the wrong type or out of range
    ├── ModelError (ValueError)          a model folder is broken, foreign or unsafe
    ├── WorkError (RuntimeError)         an interrupted run cannot go on as asked
    ├── ResourceError (RuntimeError)     memory, disk or time would not do
    │   └── TimeUpError                  the time budget is used up (`deadline.py`)
    ├── TrainingError (ArithmeticError)  numbers ran away while training
    └── MissingExtraError (ImportError)  a package is needed that is not there

A message is one sentence in four parts: where, what came, what is allowed, what to do.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable
from types import ModuleType

from treetop.core.installed import command_for

MANY = 50  # choices among which something half alike always turns up
LONGEST = 2000  # characters of a message; a value quoted in it may be as long as a file
LONGEST_WORD = 200  # characters of a word that is compared with choices
NEAR, NEARER = 0.5, 0.8  # share of letters in common; of five letters the stricter one forgives one


# What moves a terminal's cursor, changes its colours or turns the order of letters around; and lone surrogates.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""A text that is safe to print in a terminal: control characters and bidi overrides are written as escapes.

    >>> visible("red \x1b[31m")
    'red \\u001b[31m'
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # in JSON the same character


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text with its middle removed if it is too long to read."""
    if len(text) <= longest:
        return text
    half = (longest - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


class TreetopError(Exception):
    """Base of all errors that mean "the input, not the program"; the command prints them without traceback."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(shortened(sentence))


class InputError(TreetopError, ValueError):
    """Texts, labels or files given by the user are not usable."""


class DataError(InputError):
    """A row of a data file is wrong; `str()` starts with file:line."""

    def __init__(self, reason: str, *, file: object = None, line: int | None = None) -> None:
        self.reason, self.file, self.line = reason, file, line
        where = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(where + reason)


class BadRow(DataError):
    """A row or document that reading can leave out (`skip`, --skip-bad)."""


class LabelError(InputError):
    """A label is unknown, ambiguous or unavailable; `label` is its id where one row of a file may be the cause."""

    def __init__(self, reason: str, *, label: str | None = None) -> None:
        self.label = label
        super().__init__(reason)


class ConfigError(TreetopError, ValueError):
    """A setting is unknown, of the wrong type or out of range."""


class ModelError(TreetopError, ValueError):
    """A model folder is broken, foreign or unsafe."""


class WorkError(TreetopError, RuntimeError):
    """A folder of an interrupted or finished run is in the way or does not fit."""


class ResourceError(TreetopError, RuntimeError):
    """The job would need more memory, disk or time than allowed."""


class TrainingError(TreetopError, ArithmeticError):
    """The loss or a weight is not finite in training."""


class MissingExtraError(TreetopError, ImportError):
    """A package is not installed, or cannot be imported."""


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A hint like " Did you mean 'hinge'?", or nothing when no choice is near; stricter for long lists."""
    options = list(choices)
    if len(word) > LONGEST_WORD:
        return ""
    near = difflib.get_close_matches(word, options, n=1, cutoff=NEAR if len(options) <= MANY else NEARER)
    return f" Did you mean '{near[0]}'?" if near else ""


def shown(value: object) -> str:
    """`repr(value)`, also for integers of more than 4,300 digits, which Python refuses to print."""
    try:
        return repr(value)
    except ValueError:
        return "(too many digits to show)"


def choose(where: str, word: object, choices: Iterable[str], error: type[TreetopError] = ConfigError) -> str:
    """`word` if it is one of `choices`, else an error that lists them."""
    options = list(choices)
    if isinstance(word, str) and word in options:
        return word
    listed = ", ".join(f"'{option}'" for option in options)
    hint = did_you_mean(word, options) if isinstance(word, str) else ""
    raise error(f"{where}: unknown value {shown(word)}. Choose one of {listed}.{hint}")


def extra(module: str, name: str) -> ModuleType:
    """Import an optional package, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise  # the package is there but broken: show its own reason
        raise missing(module.split(".")[0], name, "this") from None


def missing(package: str, name: str, what: str) -> MissingExtraError:
    """The error that names the extra that installs a package."""
    return MissingExtraError(
        f"{what} needs the package '{package}', which is not installed. Install it with: {command_for(name)}"
    )
