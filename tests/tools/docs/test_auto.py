from tools import records
from tools.docs.auto import auto


def test_a_row_compares_auto_with_the_best_recipe_that_fits_its_budget(tmp_path):
    cells = [
        ("auto 900 s", 400.0, 44.0), ("auto 120 s", 90.0, 30.0), ("xr_linear", 20.0, 40.0), ("unidec:cpu", 500.0, 50.0)
    ]  # fmt: skip
    for what, seconds, p1 in cells:
        values = {"data": "finna:5000", "what": what, "seconds": seconds, "P@1": p1, "P@5": 20.0, "PSP@5": 10.0}
        values |= {"chosen": "xr_linear"} if what.startswith("auto") else {}
        records.append(tmp_path / "auto.jsonl", {"format": 1, "name": f"finna:5000 {what}", **values})
    refused = {"data": "alone", "what": "auto 120 s", "seconds": 3.0, "problem": "no texts"}
    records.append(tmp_path / "auto.jsonl", {"format": 1, "name": "alone auto 120 s", **refused})
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in auto(tmp_path, []).splitlines()[2:]]
    assert rows[0][:4] == ["alone", "120 s", "3 s", "no texts"]
    assert rows[1] == [
        "finna, 5,000", "120 s", "90 s", "xr_linear", "30.0 / 20.0 / 10.0", "xr_linear", "40.0 / 20.0 / 10.0", "75 %"
    ]  # fmt: skip
    assert rows[2][5:] == ["unidec:cpu", "50.0 / 20.0 / 10.0", "88 %"]
