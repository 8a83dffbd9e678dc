"""The table of docs/formats.md says what the code says."""

import re
from pathlib import Path

import pytest

from treetop.data.detect import formats
from treetop.data.format import CONTENT

FORMATS = formats()
PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-z_]+)` \| .* \| ([^|]+) \|$", PAGE, flags=re.M))


@pytest.mark.parametrize("name", FORMATS)
def test_the_page_says_what_a_format_holds(name):
    held = [words for key, words in CONTENT.items() if key != "views" and key in FORMATS[name].holds]
    lost = [words for key, words in CONTENT.items() if key != "views" and key not in FORMATS[name].holds]
    assert ROWS[name] in ("everything" if not lost else "", "all but " + ", ".join(lost), ", ".join(held))
