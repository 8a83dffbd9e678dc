"""Which script a letter belongs to, and how much of some texts is written in each."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

BLOCKS: dict[str, str] = {  # first and last code points of the blocks with a script's letters and marks
    "Latin": "41-5A 61-7A AA BA C0-2AF 1E00-1EFF 2C60-2C7F A722-A7FF AB30-AB6F FB00-FB06 FF21-FF3A FF41-FF5A",
    "Greek": "370-3FF 1F00-1FFF",
    "Cyrillic": "400-52F 1C80-1C8F 2DE0-2DFF A640-A69F",
    "Armenian": "531-58F FB13-FB17",
    "Hebrew": "591-5FF FB1D-FB4F",
    "Arabic": "600-6FF 750-77F 870-8FF FB50-FDFF FE70-FEFF",
    "Devanagari": "900-97F A8E0-A8FF",
    "Bengali": "980-9FF",
    "Gurmukhi": "A00-A7F",
    "Gujarati": "A80-AFF",
    "Odia": "B00-B7F",
    "Tamil": "B80-BFF",
    "Telugu": "C00-C7F",
    "Kannada": "C80-CFF",
    "Malayalam": "D00-D7F",
    "Sinhala": "D80-DFF",
    "Thai": "E00-E7F",
    "Lao": "E80-EFF",
    "Tibetan": "F00-FFF",
    "Myanmar": "1000-109F A9E0-A9FF AA60-AA7F",
    "Georgian": "10A0-10FF 1C90-1CBF 2D00-2D2F",
    "Hangul": "1100-11FF 3131-318F A960-A97F AC00-D7FF FFA0-FFDC",
    "Ethiopic": "1200-139F 2D80-2DDF AB00-AB2F",
    "Khmer": "1780-17FF 19E0-19FF",
    "Mongolian": "1800-18AF",
    "Hiragana": "3041-309F 1B001-1B11F 1B132-1B152",
    "Katakana": "30A1-30FF 31F0-31FF FF66-FF9F 1AFF0-1AFFF 1B000 1B120-1B122 1B155-1B167",
    "Han": "2E80-2FDF 3005-3007 3021-3029 3038-303B 3400-4DBF 4E00-9FFF F900-FAFF 20000-323AF",
}
SCRIPTS = ("other", *BLOCKS)
WITHOUT_SPACES = ("Thai", "Lao", "Myanmar", "Khmer", "Hiragana", "Katakana", "Han")
# Tibetan has none either, but a mark after each syllable, and its syllables serve better as words than characters do.
UNSPACED = tuple(SCRIPTS.index(name) for name in WITHOUT_SPACES)


def unspaced_pattern() -> str:
    """Characters of scripts without blanks between words, their marks and punctuation, for a class of a pattern."""
    blocks = [block.partition("-") for name in WITHOUT_SPACES for block in BLOCKS[name].split()]
    return "".join(f"{chr(int(first, 16))}{dash}{chr(int(last, 16)) if last else ''}" for first, dash, last in blocks)


@functools.cache
def script_table() -> NDArray[np.uint8]:
    """For every code point the position of its script in SCRIPTS; 0: another one, or no script at all."""
    table = np.zeros(0x110000, np.uint8)
    for script, name in enumerate(SCRIPTS):
        for block in BLOCKS.get(name, "").split():
            first, _, last = block.partition("-")
            table[int(first, 16) : int(last or first, 16) + 1] = script
    table.setflags(write=False)
    return table
