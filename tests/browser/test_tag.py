"""The tag tab: labels as one types, the accept line, explanations, verdicts, adding a label."""

import pytest
from playwright.sync_api import expect

from browser.fake import LONG, MARKUP, NAMES

pytestmark = pytest.mark.browser
TEXT = "The domestic cat lives in the house with a dog."


def rows(page):
    return page.locator("#suggestions .row")


def test_labels_appear_as_one_types_and_old_requests_do_not_win(opened):
    page = opened.visit()
    expect(page.locator("#line-says")).to_have_text("1,000,000 labels, learnt from 3 texts.")
    opened.fake.delay = 0.1
    page.locator("#text").press_sequentially("a cat", delay=20)
    expect(rows(page)).to_have_count(1)
    expect(rows(page).first.locator(".name")).to_have_text("cats")
    asked = opened.fake.count("/v1/predict")
    page.locator("#text").press_sequentially(" and a dog", delay=20)
    expect(rows(page)).to_have_count(2)
    assert opened.fake.count("/v1/predict") - asked <= 3  # ten letters, few requests
    page.click("#clear")
    expect(rows(page)).to_have_count(0)
    expect(page.locator("#text")).to_be_focused()


def test_a_text_is_pasted(opened):
    page = opened.visit()
    page.evaluate("navigator.clipboard.writeText('a cat\\nand a dog')")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Control+V")
    expect(rows(page).locator(".name")).to_have_text(["cats", "dogs"])
    expect(page.locator("#text")).to_have_value("a cat\nand a dog")


def test_bars_show_probabilities_and_the_line_moves_with_the_precision(opened):
    page = opened.visit()
    opened.type(TEXT)
    expect(rows(page)).to_have_count(4)
    expect(rows(page).first.locator(".value").first).to_have_text("0.95")
    widths = [row.locator(".fill").first.bounding_box()["width"] for row in rows(page).all()]
    assert widths == sorted(widths, reverse=True) and widths[0] > 0
    expect(page.locator("#suggestions .below")).to_have_count(1)
    expect(page.locator("#suggestions .line")).to_contain_text("0.55")
    page.get_by_role("radio", name="50 %").check()
    expect(page.locator("#suggestions .below")).to_have_count(0)
    expect(page.locator("#suggestions .line")).to_contain_text("0.30")
    page.get_by_role("radio", name="90 %").check()
    expect(page.locator("#suggestions .line")).to_have_count(0)
    expect(page.locator("#line-says")).to_contain_text("No threshold reached a precision of 90 %")


def test_the_most_probable_label_is_first_whatever_its_score(opened):
    page = opened.visit()
    opened.type("uneven cat dog house")
    expect(rows(page).locator(".name")).to_have_text(["houses", "dogs", "cats"])
    expect(rows(page).locator(".row-head .value")).to_have_text(["0.95", "0.76", "0.61"])
    page.get_by_role("radio", name="70 %").check()
    page.fill("#text", "uneven domestic cat dog house music")
    expect(rows(page)).to_have_count(5)
    expect(page.locator("#suggestions .below .value")).to_have_text(["0.49", "0.39"])
    line = page.locator("#suggestions .line").bounding_box()["y"]
    ys = [row.bounding_box()["y"] for row in rows(page).all()]
    assert ys[2] < line < ys[3]


def test_that_nothing_reaches_the_line_is_said(opened):
    page = opened.visit()
    opened.type("cat")
    expect(page.locator("#line-says")).to_have_text("")
    opened.type("a faint cat")
    expect(page.locator("#line-says")).to_have_text("None of these labels reaches the accept line.")
    expect(page.locator("#accept-all")).to_be_hidden()


def test_labels_above_the_line_that_are_not_shown_are_spoken_of(opened):
    page = opened.visit()
    page.get_by_role("radio", name="50 %").check()
    opened.type("a cat, a dog, a domestic house and music")
    expect(rows(page)).to_have_count(5)
    expect(page.locator("#line-says")).to_be_empty()
    page.select_option("#depth", "5")
    expect(page.locator("#line-says")).to_contain_text("All 5 shown are above the line; there may be more.")


def test_an_uncalibrated_model_has_scores_and_no_line(opened):
    page = opened.visit()
    opened.type(TEXT)
    page.select_option("#model", "beta")
    expect(page.locator("#line-says")).to_contain_text("not calibrated")
    expect(page.locator("#precision")).to_be_hidden()
    expect(page.locator("#suggestions .line")).to_have_count(0)
    expect(rows(page).first.locator(".value").first).to_have_text("2.00")


def test_texts_of_which_nothing_is_known_say_so(opened):
    page = opened.visit()
    opened.type("qwertz")
    expect(page.locator("#line-says")).to_contain_text("knows nothing of this text")


def test_a_label_explains_itself(opened):
    page = opened.visit()
    opened.type("🐈 the cat, a house")
    name = page.get_by_role("button", name="cats", exact=True)
    name.click()
    expect(name).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#backdrop mark.for")).to_have_text(["cat"])  # characters, not UTF-16 units
    expect(page.locator("#backdrop mark.against")).to_have_text(["the"])
    detail = page.locator("#suggestions .detail:not([hidden])")
    expect(detail).to_contain_text("in 7 training texts")
    expect(detail.locator(".words li")).to_have_text(["cat+2.40", "the−0.40"])
    expect(detail).to_contain_text("a cat of the training texts")
    detail.get_by_role("button", name="cats, dogs").click()  # the first step alone
    expect(page.locator("#backdrop mark.against")).to_have_count(0)
    expect(detail.locator(".words li")).to_have_text(["cat+1.20"])
    opened.type("a house and a cat")
    expect(page.locator("#backdrop mark.for")).to_have_text(["cat"])  # explained again
    name.click()
    expect(page.locator("#backdrop mark")).to_have_count(0)
    name.click()
    page.locator("#suggestions .detail:not([hidden])").get_by_role("button", name="dogs 0.50").click()
    expect(page.locator("#label h3")).to_have_text("dogs")


def test_training_texts_are_shown_only_where_the_server_shows_them(opened):
    opened.fake.show_texts = False
    page = opened.visit()
    opened.type("a cat")
    page.get_by_role("button", name="cats", exact=True).click()
    detail = page.locator("#suggestions .detail:not([hidden])")
    expect(detail).to_contain_text("Similar labels")
    expect(detail).not_to_contain_text("Nearest training texts")


def test_the_marks_lie_where_the_words_are(opened):
    """The copy behind the field breaks lines as the field does, however long the text."""
    page = opened.visit()
    opened.type("some words before the last line\n" * 60 + "and here a cat")
    page.get_by_role("button", name="cats", exact=True).click()
    expect(page.locator("#backdrop mark.for")).to_have_count(1)
    page.locator("#text").evaluate("field => { field.scrollTop = field.scrollHeight }")
    page.wait_for_timeout(100)
    field, mark = page.locator("#text").bounding_box(), page.locator("#backdrop mark.for").bounding_box()
    assert field["y"] < mark["y"] and mark["y"] + mark["height"] <= field["y"] + field["height"]
    heights = page.evaluate("['text', 'backdrop'].map((id) => document.getElementById(id).scrollHeight)")
    assert abs(heights[0] - heights[1]) <= 2


def test_verdicts_are_sent_and_shown(opened):
    page = opened.visit()
    opened.type(TEXT)
    page.get_by_role("button", name="Accept cats").click()
    expect(page.locator("#chosen .chip")).to_have_text(["cats×"])
    page.get_by_role("button", name="Reject houses").click()
    expect(rows(page).filter(has_text="houses").first).to_have_attribute("data-verdict", "reject")
    expect(page.locator("#status")).to_have_text("Rejected: houses")
    assert [(each["label"], each["verdict"]) for each in opened.fake.feedback] == [("c1", "accept"), ("c4", "reject")]
    assert all(each["text"] == TEXT and each["model"] == "alpha" for each in opened.fake.feedback)
    page.get_by_role("button", name="Reject cats").first.click()  # a change of mind
    expect(page.locator("#chosen .chip")).to_have_count(0)


def test_all_above_the_line_are_accepted_but_those_already_rejected(opened):
    page = opened.visit()
    opened.type(TEXT)
    page.get_by_role("button", name="Reject cats").click()
    expect(rows(page).nth(1)).to_have_attribute("data-verdict", "reject")
    page.click("#accept-all")
    expect(page.locator("#chosen .chip")).to_have_text(["domestic animals×", "houses×"])
    page.click("#save")
    expect(page.locator("#save")).to_have_text("Saved")
    assert opened.fake.feedback[-1] == {"text": TEXT, "labels": ["c3", "c4"], "model": "alpha"}
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "domestic animals\nhouses"


def test_choices_stay_through_an_edit_and_go_with_the_text(opened):
    page = opened.visit()
    opened.type(TEXT)
    page.get_by_role("button", name="Accept cats").click()
    expect(page.locator("#chosen .chip")).to_have_count(1)
    opened.type(TEXT + " It purrs.")
    expect(page.locator("#chosen .chip")).to_have_count(1)
    opened.type("Something else about music")
    expect(page.locator("#chosen .chip")).to_have_count(0)


def test_a_label_is_added_by_search_with_the_keyboard(opened):
    page = opened.visit()
    opened.type(TEXT)
    field = page.get_by_role("combobox", name="Add a label")
    field.press_sequentially("dom", delay=20)
    expect(page.locator("#add").get_by_role("option")).to_have_count(1)
    expect(field).to_have_attribute("aria-expanded", "true")
    field.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", "add-0")
    field.press("Enter")
    expect(page.locator("#chosen .chip")).to_have_text(["domestic animals×"])
    assert opened.fake.feedback[-1]["verdict"] == "add"
    field.press_sequentially("no such label", delay=5)
    expect(page.get_by_role("listbox", name="Add a label")).to_contain_text("No label has this name.")
    field.press("Escape")
    expect(field).to_have_attribute("aria-expanded", "false")
    field.press("Escape")
    expect(field).to_have_value("")


def test_search_among_a_million_labels_shows_a_few(opened):
    page = opened.visit()
    field = page.get_by_role("combobox", name="Add a label")
    field.fill("subject")
    expect(page.locator("#add").get_by_role("option")).to_have_count(20)
    expect(page.locator("#status")).to_have_text("20 of 1,000,000 labels")
    for key, active in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0), ("ArrowUp", 19), ("ArrowDown", 0)):
        field.press(key)
        expect(field).to_have_attribute("aria-activedescendant", f"add-{active}")


def test_the_list_is_worked_by_keyboard_alone(opened):
    page = opened.visit()
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("a cat and a dog")
    expect(rows(page)).to_have_count(2)
    page.keyboard.press("Control+Enter")
    expect(rows(page).first.locator(".name")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("r")
    expect(rows(page).nth(1)).to_have_attribute("data-verdict", "reject")
    page.keyboard.press("Home")
    page.keyboard.press("a")
    expect(page.locator("#chosen .chip")).to_have_text(["cats×"])
    page.keyboard.press("Enter")
    expect(rows(page).first.locator(".name")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_be_focused()


def test_odd_names_are_text_and_break_nothing(opened):
    page = opened.visit()
    opened.type("odd")
    expect(rows(page)).to_have_count(5)
    assert [name.text_content() for name in rows(page).locator(".name").all()] == [
        name for id_, name in NAMES.items() if id_.startswith("odd")
    ]
    assert page.locator("#suggestions img, #suggestions script").count() == 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#suggestions .name").nth(3).click()
    expect(page.locator("#suggestions .detail:not([hidden])")).to_contain_text("its end")
    for accept in page.locator("#suggestions .accept").all():
        accept.click()
    expect(page.locator("#chosen .chip")).to_have_count(5)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert MARKUP in page.locator("#chosen").text_content() and LONG in page.locator("#chosen").text_content()


def test_errors_of_the_server_are_said_and_go_away(opened):
    opened.allowed = ["Failed to load resource"]
    page = opened.visit()
    opened.fake.fail = "/v1/predict"
    opened.type("a cat")
    expect(page.get_by_role("alert")).to_contain_text("The disk is full. Free some space.")
    opened.fake.fail = ""
    opened.type("a cat again")
    expect(page.locator(".error")).to_have_count(0)
    expect(rows(page)).to_have_count(1)
