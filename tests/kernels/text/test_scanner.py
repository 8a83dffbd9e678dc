import re
import subprocess
import sys
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treetop.core.texts import Texts
from treetop.features.tfidf.grams import Cutter
from treetop.kernels import reference
from treetop.kernels.text import characters, scanner, survey, terms, weigh

TEXTS = [
    "", " ", "a", "ab", "A cat, a CAT; the cat.", "naïve Ünïcode ÉCOLE", "ΟΔΟΣ ὈΔΥΣΣΕΎΣ Σ", "İstanbul ISPARTA ıİ",
    "हिन्दी की किताब पढ़ो", "می‌خواهم", "❤️ 👩‍👩‍👧 1️⃣ x", "e\u0301tude \u0301x", "snake_case __init__ 3.14",
    "x2", "汉字 かな カタカナ",
    "Straße ǅungla ﬁ Kelvin \u212a \u023a\u023e", "tab\t\tand \n\nline\u00a0\u2003nbsp \u3000x",
    "\x00\x1c\x85b\u2028c", "\ufffd\U0001f600\U00020000", "図書館学入門", "本",
    "第3章のPython入門 東京 大阪", "か\u3099く\u3099a\u3099",
    "ภาษาไทยน่ารัก ๑๒๓ ไทย๑", "ខ្មែរ\u200bភាសា", "မြန်မာဘာသာ", "ພາສາລາວ", "བོད་སྐད་ཡིག", "aa字bb字字cc",
    "Ⱥ字ȺȺ字ȺȺȺ字", "字ΣΑΣ字İ", "ｶﾞｷﾞ〆々〇ー・ー",
    "\U00020000\U0002f800葛\U000e0100飾 字\u200d字\u0301 \u0301字",
]  # fmt: skip
alphabet = st.characters() | st.sampled_from(
    "aAbB_1 \t\n.ΣσςİIıéÉe\u0301हि्द\u200c\u200dß字\u3000ⱥȺ漢かナーไที\u3099\U00020000๑"
)
random_texts = st.lists(st.text(alphabet, max_size=30), max_size=6)


def names(cutter, strings):
    """Grams of each text as strings, read back from the buffer."""
    buffer, _, begins, ends, rows = cutter(Texts.of(strings))
    raw = buffer.tobytes()
    grams = [raw[a:b].decode() for a, b in zip(begins, ends, strict=True)]
    return [grams[a:b] for a, b in pairwise(rows)]


def expected(cutter, strings):
    if cutter.unit == "words":
        rules = {"lower": cutter.lower, "marks": cutter.marks, "shortest": cutter.shortest}
        split_runs = cutter.unspaced is not None
        groups = [reference.word_spans(s, **rules, split_runs=split_runs) for s in strings]
        grams = [reference.word_grams(group, cutter.low, cutter.high, cutter.unspaced) for group in groups]
        return [[name for name, _, _ in row] for row in grams]
    rules = {"lower": cutter.lower, "within_words": cutter.within == "words"}
    return [reference.character_grams(s, cutter.low, cutter.high, **rules) for s in strings]


CUTTERS = [
    Cutter("words", 1, 1), Cutter("words", 1, 3, marks=False), Cutter("words", 2, 2, shortest=1),
    Cutter("words", 1, 1, unspaced=(1, 2)), Cutter("words", 1, 2, unspaced=(2, 3)),
    Cutter("words", 2, 3, shortest=1, lower=False, unspaced=(1, 1)),
    Cutter("words", 1, 1, marks=False, unspaced=(3, 3)),
    Cutter("words", 1, 2, lower=False, shortest=3), Cutter("characters", 1, 4), Cutter("characters", 3, 5),
    Cutter("characters", 1, 3, within="text"), Cutter("characters", 2, 2, within="text", lower=False),
]  # fmt: skip


def test_character_table_agrees_with_python_on_every_code_point():
    wrong, odd = [], []
    for point, entry in enumerate((characters.characters() & ~np.uint32(characters.RUN)).tolist()):
        character = chr(point)
        lower, letter = character.lower(), character.isalnum()
        mark = (unicodedata.category(character)[0] == "M" and not letter) or point in (0x200C, 0x200D)
        flags = (
            characters.WORD * (letter or character == "_")
            | characters.SPACE * character.isspace()
            | characters.MARK * mark
        )
        if entry & characters.ODD:
            odd.append(character)
            continue
        fits = lower == character or 2 * len(lower.encode()) <= 3 * len(character.encode())  # room in the buffer
        if entry != flags | ord(lower) or lower.lower() != lower or not fits:
            wrong.append(character)
    assert wrong == []
    assert odd == ["İ", "Σ"]


@pytest.mark.parametrize("cutter", CUTTERS, ids=str)
def test_grams_are_those_of_the_slow_twin(cutter):
    assert names(cutter, TEXTS) == expected(cutter, TEXTS)
    assert names(cutter, []) == []


@settings(max_examples=150, deadline=None)
@given(random_texts, st.sampled_from(CUTTERS))
def test_grams_of_random_texts(strings, cutter):
    strings = list(Texts.of(strings))  # lone surrogates become U+FFFD there
    assert names(cutter, strings) == expected(cutter, strings)


def test_a_text_of_megabytes_is_cut_like_any_other():
    words = [f"word{i % 9973}é" for i in range(900_000)]
    huge = " ".join(words)
    assert len(huge.encode()) > 9_000_000
    _, hashes, begins, ends, rows = Cutter("words", 1, 2)(Texts.of(["", huge, "end here"]))
    assert rows.tolist() == [0, 0, 2 * len(words) - 1, 2 * len(words) + 2]
    assert len(np.unique(hashes)) == 2 * 9973 + 3
    lengths = [len(word.encode()) for word in words]
    assert (ends - begins)[: rows[2] : 2].tolist() == lengths
    assert (ends - begins)[1 : rows[2] : 2].tolist() == [a + b + 1 for a, b in pairwise(lengths)]


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.sampled_from(CUTTERS))
@settings(max_examples=150, deadline=None)
def test_wrong_utf8_reads_as_python_replaces_it(raws, cutter):
    offsets = np.concatenate([[0], np.cumsum([len(raw) for raw in raws])])
    broken = Texts(np.frombuffer(b"".join(raws), np.uint8), offsets)
    assert names(cutter, broken) == expected(cutter, [raw.decode("utf-8", "replace") for raw in raws])


def test_scanners_survive_wrong_utf8_unprepared():
    random = np.random.default_rng(0)
    table = characters.characters()
    blob = random.integers(0, 256, 50_000).astype(np.uint8)
    offsets = np.sort(np.concatenate([[0, len(blob)], random.integers(0, len(blob), 3000)]))
    for scan in (
        scanner.scan_words(blob, offsets, table, characters.WORD, 1, True, False),
        scanner.scan_words(blob, offsets, table, characters.WORD | characters.MARK, 1, True, True),
        scanner.scan_characters(blob, offsets, table, True, True),
        scanner.scan_characters(blob, offsets, table, False, True),
    ):
        scan[0].tobytes().decode()  # what is written is sound again


@pytest.mark.parametrize("cutter", CUTTERS, ids=str)
def test_stored_terms_have_the_hash_of_their_grams(cutter):
    _, hashes, *_ = cutter(Texts.of(TEXTS))
    grams = Texts.of([gram for row in names(cutter, TEXTS) for gram in row])
    again = scanner.hash_terms(grams.blob, grams.offsets, cutter.unit == "words")
    assert np.array_equal(hashes, again)


def packed(rows, hashes=None):
    """Grams as `list_grams` gives them, from lists of strings."""
    flat = Texts.of([gram for row in rows for gram in row])
    values = scanner.hash_terms(flat.blob, flat.offsets, True) if hashes is None else hashes(len(flat))
    ends = flat.offsets.astype(np.int32)
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return flat.blob, values, ends[:-1].copy(), ends[1:].copy(), pointers


def constant(n):
    return np.full(n, 7, np.uint64)


def few(n):
    return np.arange(n, dtype=np.uint64) % np.uint64(3) << np.uint64(40)


ROWS = [["b", "a", "b"], [], ["c", "a"], ["c", "c", "c", ""], ["ab", "b"]] + [
    [f"t{i * i % 311}"] * (i % 4) for i in range(900)
]


@pytest.mark.parametrize("hashes", [None, constant])
def test_count_merge_and_find_are_exact_even_when_all_hashes_collide(hashes):
    rows = ROWS if hashes is None else ROWS[:200]
    grams = packed(rows, hashes)
    ids, counts, pointers, places, uses = terms.count_terms(grams)
    flat = [gram for row in rows for gram in row]
    local = [flat[place] for place in places]
    assert local == list(dict.fromkeys(flat))
    found = [{local[t]: c for t, c in zip(ids[a:b], counts[a:b], strict=True)} for a, b in pairwise(pointers)]
    assert found == [dict(Counter(row)) for row in rows]
    assert dict(zip(local, uses.tolist(), strict=True)) == Counter(gram for row in rows for gram in set(row))
    store = (np.zeros(2048, np.uint64), np.zeros(900, np.uint64), np.zeros(901, np.int64), np.zeros(9000, np.uint8))
    known, n = terms.merge_terms(grams, places, store, 0)
    assert known.tolist() == list(range(len(local))) and n == len(local)
    back = packed([["new"], local[::-1]], hashes)
    again, n = terms.merge_terms(back, np.arange(len(local) + 1), store, n)
    assert again.tolist() == [len(local), *range(len(local) - 1, -1, -1)] and n == len(local) + 1
    table, known_hashes, offsets, blob = store
    assert terms.find_terms(back, (table, blob, offsets)).tolist() == again.tolist()
    rebuilt = terms.build_table(known_hashes[:n])
    assert terms.find_terms(packed([["nowhere", "a"]], hashes), (rebuilt, blob, offsets)).tolist() == [
        -1,
        local.index("a"),
    ]


def test_equal_halves_of_hashes_do_not_mix_terms():
    rows = [["x", "y", "z", "x"], ["y"]]
    ids, counts, *_ = terms.count_terms(packed(rows, few))
    assert len(ids) == 4 + 0 and counts.tolist() == [2, 1, 1, 1]


@given(st.lists(st.text(alphabet, max_size=12), unique=True, max_size=60))
@settings(max_examples=100, deadline=None)
def test_terms_sort_by_code_point(strings):
    stored = Texts.of(strings)
    strings = list(stored)
    chosen = np.arange(len(strings))
    keys = terms.prefixes(stored.blob, stored.offsets, chosen)
    order = np.argsort(keys)
    chosen = chosen[order]
    terms.settle_ties(stored.blob, stored.offsets, keys[order], chosen)
    taken = Texts(*terms.take_terms(stored.blob, stored.offsets, chosen))
    assert list(taken) == sorted(strings)


@pytest.mark.parametrize(
    "rules", [(False, False, True), (False, True, True), (True, False, True), (False, True, False)]
)
@pytest.mark.parametrize("seed", range(3))
def test_weights_are_those_of_the_slow_twin(rules, seed):
    random = np.random.default_rng(seed)
    vocabulary = [f"t{i}" for i in range(60)]
    idf = random.random(60) * 5
    rows = [[vocabulary[i] for i in random.integers(0, 60, size)] for size in (0, 1, 5, 200, 0, 39, 41)]
    columns = {term: i for i, term in enumerate(vocabulary) if i % 3}
    mapped = np.array([columns.get(term, -1) for term in vocabulary], np.int32)
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    ids = np.array([int(term[1:]) for row in rows for term in row], np.int32)
    none = np.zeros(0, np.int32)
    for made in (
        weigh.weigh(pointers, ids, none, mapped, idf, rules),
        weigh.weigh(pointers, mapped[ids], np.ones(len(ids), np.int32), none, idf, rules),
    ):
        indptr, indices, data = made
        for d, row in enumerate(rows):
            want = reference.tfidf_row(row, columns, idf, rules)
            span = slice(indptr[d], indptr[d + 1])
            assert indices[span].tolist() == list(want)
            np.testing.assert_allclose(data[span], np.array([*want.values()], np.float32), rtol=2e-7)


KERNELS = [
    *(scanner.odd_texts, scanner.scan_words, scanner.scan_characters, scanner.list_grams, scanner.hash_terms),
    *(scanner.rewrite, survey.count_letters),
    *(terms.count_terms, terms.merge_terms, terms.find_terms, terms.fill_table, terms.prefixes),
    *(terms.settle_ties, terms.take_terms, weigh.weigh),
]


def test_read_only_arrays_need_no_kernel_of_their_own():
    stored = Texts.of(TEXTS)
    for array in (stored.blob, stored.offsets):
        array.setflags(write=False)
    assert names(CUTTERS[0], stored) == expected(CUTTERS[0], TEXTS)
    assert [len(kernel.signatures) for kernel in KERNELS] == [1] * len(KERNELS)


def test_second_process_compiles_nothing():
    code = (
        "from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig;"
        "from treetop.kernels.text import scanner, survey, terms, weigh;"
        "Tfidf.fit_transform(['a cat', 'the cat'], TfidfConfig(char_ngrams=(1, 3)))[0].transform(['cat']);"
        "found = [v for m in (scanner, survey, terms, weigh) for v in vars(m).values() if hasattr(v, 'stats')];"
        "print(len(found), sum(v.stats.cache_misses.total() for v in found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, misses = map(int, re.findall(r"\d+", done.stdout))
    assert count >= len(KERNELS)
    assert misses == 0
