from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from tools.docs import figures, tables
from tools.docs.__main__ import main
from tools.docs.drawing import Bar, Bars, Lines, picture, steps
from treetop.core.errors import InputError

KEYS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "rare_R@10")


def bins(score):
    volumes = [
        {"name": f"volume {i + 1}", "cut": "volume", "labels": 10**i, "train_counts": [9 - i, 12 - i],
         "P@5_share": score + i, "R@10": 2 * score, "C@10": 1.0}
        for i in range(5)
    ]  # fmt: skip
    return [{"name": "head", "cut": "frequency", "labels": 7, "train_counts": [], "P@5_share": 99.0}, *volumes]


def run(recipe, score, *, seed=0, on="test", data="d", **more):
    line = {"section": "recipe", "recipe": recipe, "data": data, "on": on, "seed": seed, "name": "any"}
    return {**line, **dict.fromkeys(KEYS, score), "bins": bins(score), "memory": 2**30, "one_text_ms": score, **more}


def written(tmp_path, lines, file="gandalf-h200"):
    (tmp_path / "gpu").mkdir(exist_ok=True)
    (tmp_path / f"gpu/{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def table(results, *words):
    made = tables.TABLES["gandalf"](results, ["gandalf-h200", *words])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in made.splitlines()]


def svg(text):
    return ElementTree.fromstring(text)


def words_of(node):
    return [element.text for element in node.iter("{http://www.w3.org/2000/svg}text")]


def test_pairs_are_runs_that_differ_in_gandalf_alone(tmp_path):
    lines = [
        run("gandalf+r", 12.0), run("r", 10.0),
        run("gandalf+r", 50.0, settings={"gandalf": {"delta": 0.3}}),  # another Gandalf
        run("gandalf+mixup+r", 50.0), run("identity+r", 50.0), run("alone", 50.0), run("r", 50.0, on="held-out"),
        run("r", 50.0, data="e"), run("r", 50.0, settings={"lr": 1}), {**run("r", 50.0), "section": "part", "of": "x"},
        run("gandalf+q", 3.0, settings={"gandalf": {"delta": 0.2}, "begin": "zero", "net": {"n": 2}}),  # the default
        run("q", 2.5, settings={"begin": "zero", "net": {"n": 2}}),
    ]  # fmt: skip
    head, _, *rows = table(written(tmp_path, lines), "d", "test")
    assert head == ["recipe", "P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "rare R@10", "seeds"]
    both = ["+ gandalf", "*difference*"]
    assert [row[0] for row in rows] == ["q, begin=zero, net.n=2", *both, "r", *both]
    assert rows[3][1:] == ["10.00"] * 7 + ["1"] and rows[4][1:] == ["12.00"] * 7 + ["1"]
    assert rows[5][1:] == ["+2.00"] * 7 + [""] and rows[2][1] == "+0.50"


def test_seeds_have_a_spread_and_differences_are_taken_inside_a_seed(tmp_path):
    lines = [run("r", 10.0), run("r", 20.0, seed=1), run("r", 30.0, seed=2), run("r", 12.0)]  # seed 0 twice: 11
    lines += [run("gandalf+r", 12.0), run("gandalf+r", 21.0, seed=1), run("gandalf+r", 31.0, seed=2)]
    _, _, base, more, gain = table(written(tmp_path, lines), "d", "test")
    assert base[1] == "20.33 ± 9.50" and more[1] == "21.33 ± 9.50" and base[-1] == more[-1] == "3"
    assert gain[1] == "+1.00"  # 1 in every seed: no spread
    lines[-1] = run("gandalf+r", 32.0, seed=2)
    assert table(written(tmp_path, lines), "d", "test")[4][1] == "+1.33 ± 0.58"


@pytest.mark.parametrize(("second", "bold"), [([12.1, 14.0], True), ([11.9, 14.0], False), ([7.0, 9.0], True)])
def test_differences_are_bold_where_intervals_lie_apart_in_every_seed(tmp_path, second, bold):
    def both(seed, interval):
        return [
            run("r", 10.0, seed=seed, intervals={"P@1": [9.5, 12.0]}),
            run("gandalf+r", 13.0, seed=seed, intervals={"P@1": interval}),
        ]

    gain = table(written(tmp_path, both(0, second)), "d", "test")[4]
    assert gain[1] == ("**+3.00**" if bold else "+3.00") and gain[2] == "+3.00"
    assert table(written(tmp_path, both(0, second) + both(1, [11.0, 15.0])), "d", "test")[4][1] == "+3.00"


def test_costs_and_bins_of_pairs(tmp_path):
    results = written(tmp_path, [run("r", 10.0), run("gandalf+r", 11.0, memory=2**29)])
    head, _, base, more, gain = table(results, "d", "test", "costs")
    place = head.index("one text ms")
    assert (base[1], more[1], gain[1]) == ("1.00", "0.50", "-50.0 %") and gain[place] == "+10.0 %"
    assert gain[head.index("fit s")] == "–"
    head, _, base, more, gain = table(results, "d", "test", "bins")
    assert head[1] == "bin 1: 1 labels, 9–12 texts" and head[5] == "bin 5: 10,000 labels, 5–8 texts"
    assert base[1:6] == ["10.00", "11.00", "12.00", "13.00", "14.00"] and gain[1:6] == ["+1.00"] * 5
    assert table(results, "d", "test", "bins", "R@10")[4][1] == "+2.00"


def test_augmentations_of_a_recipe_stand_below_it(tmp_path):
    zero = {"begin": "zero"}
    lines = [
        run("gandalf+r", 14.0, settings={**zero, "gandalf": {"delta": 0.2}}), run("r", 10.0, settings=zero),
        run("gandalf+r", 12.0, settings=zero), run("synonym+r", 9.5, settings={**zero, "synonym": {}}),
        run("r", 1.0, settings=zero, past=True),
        run("r", 50.0), run("mixup+r", 60.0),  # other settings, fewer augmentations
        run("gandalf+q", 70.0, settings=zero), run("glas+r", 70.0, settings={"begin": "one"}),
    ]  # fmt: skip
    results = written(tmp_path, lines)
    made = tables.TABLES["augmented"](results, ["gandalf-h200", "d", "test", "r"])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in made.splitlines()][2:]
    assert [(row[0], row[1]) for row in rows] == [
        ("r, begin=zero", "10.00"), ("gandalf", "12.00 (+2.00)"), ("gandalf, delta=0.2", "14.00 (+4.00)"),
        ("synonym", "9.50 (-0.50)"),
    ]  # fmt: skip
    assert rows[0][8:] == ["–", "1"]
    with pytest.raises(InputError, match="no augmentations of 's' for 'd test'"):
        tables.TABLES["augmented"](results, ["gandalf-h200", "d", "test", "s"])
    with pytest.raises(InputError, match="and a recipe"):
        tables.TABLES["augmented"](results, ["gandalf-h200", "d", "test"])


def test_tables_without_runs_are_refused(tmp_path):
    results = written(tmp_path, [run("r", 10.0)])
    for words, sentence in (
        (["gandalf-h200", "d", "test"], "no recipe with and without gandalf for 'd test'"),
        (["other", "d", "test"], "no such file of runs"),
        (["gandalf-h200", "d"], "give a file, a data set and a split"),
        (["gandalf-h200", "d", "test", "score"], "Did you mean 'scores'"),
    ):
        with pytest.raises(InputError, match=sentence):
            tables.TABLES["gandalf"](results, words)
    results = written(tmp_path, [run("r", 10.0), run("gandalf+r", 10.0)])
    with pytest.raises(InputError, match="Did you mean 'R@10'"):
        table(results, "d", "test", "bins", "R@1")


def test_bins_are_drawn_in_proportion_with_label_counts_below(tmp_path):
    lines = [run("r", 1.0), run("gandalf+r", 2.0), run("gandalf+r", 4.0, seed=1), run("r", 3.0, seed=1)]
    made = figures.figures(written(tmp_path, lines))
    assert sorted(made) == ["gandalf-bins-d.svg", "gandalf-recall-d.svg"]
    drawn = svg(made["gandalf-bins-d.svg"])
    words = words_of(drawn)
    for text in ("r", "labels", "10,000", "5–8", "without", "with gandalf", "+1.00"):
        assert text in words
    heights = [
        float(x) for x in re.findall(r'class="bar a" [^>]*height="([\d.]+)"><title>bin', made["gandalf-bins-d.svg"])
    ]
    assert len(heights) == 5 and heights[4] / heights[0] == pytest.approx(6 / 2, rel=0.01)
    assert "<title>bin 1, without: 2.00 ± 1.41</title>" in made["gandalf-bins-d.svg"]
    assert made["gandalf-bins-d.svg"].count('class="spread"') == 10


def test_rows_are_drawn_by_share_and_order_beginning_without_and_ending_with_all(tmp_path):
    def part(order, share, score):
        settings = {"b": 1, "gandalf": {"order": order, "share": share}}
        return run("gandalf+r", score, on="held-out", settings=settings)

    lines = [run("r", 10.0, on="held-out", settings={"b": 1}), run("r", 77.0, on="held-out")]  # not of these
    lines += [run("gandalf+r", 20.0, on="held-out", settings={"b": 1}), part("random", 0.5, 12.0)]
    lines += [run("gandalf+r", 90.0, on="held-out", settings={"b": 1}, past=True)]
    assert "gandalf-rows-r-d.svg" not in figures.figures(written(tmp_path, lines))  # one order alone
    made = figures.figures(written(tmp_path, [*lines, part("tail", 0.25, 15.0), part("tail", 0.5, 18.0)]))
    text = made["gandalf-rows-r-d.svg"]
    assert words_of(svg(text)).count("100 %") == 3
    values = re.findall(r'class="dot ([ab])"[^>]*><title>([\d.]+)</title>', text)[:7]
    assert [value for look, value in values if look == "a"] == ["10.00", "12.00", "20.00"]
    assert [value for look, value in values if look == "b"] == ["10.00", "15.00", "18.00", "20.00"]
    assert "r, b=1 on d, held-out" in text


def test_losses_are_drawn_training_by_training(tmp_path):
    curve = [[1, 9.0], [50, 5.0], [1, 4.0], [60, 2.0]]
    lines = [run("r<", 1.0, curve=curve), run("gandalf+r<", 1.0, curve=[[1, 8.0], [70, 6.0], [1, 5.0], [80, 1.0]])]
    text = figures.figures(written(tmp_path, lines))["gandalf-loss-d.svg"]
    assert {"r<, training 1", "r<, training 2"} <= set(words_of(svg(text))) and text.count("<polyline") == 4
    lines[1].pop("curve")
    assert "gandalf-loss-d.svg" not in figures.figures(written(tmp_path, lines))


def test_scores_of_held_out_documents_are_drawn_over_steps(tmp_path):
    lines = [run("r", 1.0, points=[[10, 5.0, 2.0], [20, 7.0, 3.0]]), run("gandalf+r", 1.0, points=[[12, 6.0, 4.0]])]
    text = figures.figures(written(tmp_path, lines))["gandalf-steps-d.svg"]
    assert {"r, P@1", "r, PSP@5"} <= set(words_of(svg(text)))
    assert re.findall(r'class="dot [ab]"[^>]*><title>([\d.]+)</title>', text) == [
        "5.00",
        "7.00",
        "6.00",
        "2.00",
        "3.00",
        "4.00",
    ]
    lines[0]["past"] = True
    assert "gandalf-steps-d.svg" not in figures.figures(written(tmp_path, lines))


def test_the_command_draws_what_has_records_and_says_what_is_old(tmp_path, capsys):
    call = ["figures", "--root", str(tmp_path)]
    assert main([*call, "--check"]) == 0  # no records, no figures
    results = tmp_path / "benchmarks/results"
    results.mkdir(parents=True)
    written(results, [run("r", 1.0), run("gandalf+r", 2.0)])
    assert main([*call, "--check"]) == 1 and capsys.readouterr().out.count("out of date") == 2
    assert main(call) == 0 and capsys.readouterr().out.count("updated") == 2
    assert main(call) == 0 and main([*call, "--check"]) == 0 and capsys.readouterr().out == ""
    written(results, [run("r", 1.0), run("gandalf+r", 2.5)])
    assert main([*call, "--check"]) == 1
    assert "gandalf-bins-d.svg: out of date" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("low", "high", "made"),
    [
        (0, 5.4, [0, 2, 4, 6]),
        (38.55, 39.42, [38.5, 38.75, 39, 39.25, 39.5]),
        (7, 7, [7, 7.25, 7.5, 7.75, 8]),
        (0, 0.01, None),
    ],
)
def test_ticks_are_round_and_hold_all_values(low, high, made):
    found = steps(low, high)
    assert found[0] <= low and found[-1] >= high and 2 <= len(found) <= 7
    assert made is None or found == pytest.approx(made)


def test_names_are_escaped_and_nothing_is_fetched():
    evil = '<script>"&'
    bars = Bars(evil, [[Bar(0.0, title=evil), Bar(1.0)]], [[evil]], ("labels",))
    lines = Lines(evil, [[(0.0, 3.0)], []], [(0.0, evil)], evil)
    text = picture(evil, [evil, evil], [bars, lines])
    assert words_of(svg(text)).count(evil) == 8 and "<script" not in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"] and "url(" not in text


def test_counts_of_texts_are_as_short_as_their_bars():
    assert [figures._short(pair) for pair in ([1, 28], [457, 1543], [1550, 10143], [7, 7], [9949, 9951])] == [
        "1–28", "457–1.5k", "1.6k–10k", "7", "9.9k–10k",
    ]  # fmt: skip
