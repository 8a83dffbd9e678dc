"""The labels tab: a million labels by search and down the tree, with few of them in the page."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
FEW = 60  # rows that may be in the page at once
DRAG = """async (list) => {  // the handle goes to the end in a hundred steps, one a frame
  for (let step = 1; step <= 100; step++) {
    list.scrollTop = (step / 100) * list.scrollHeight;
    await new Promise(requestAnimationFrame);
  }
}"""


def rows(page):
    return page.locator("#shelf .virtual-row")


def test_the_tree_is_walked_down_and_up(opened):
    page = opened.visit("labels")
    expect(page.locator("#found")).to_have_text("50 branches with 1,000,000 labels")
    rows(page).nth(3).click()
    expect(page.locator("#found")).to_have_text("20,000 labels")
    expect(page.locator("#crumbs")).to_have_text("All labels›branch 3")
    rows(page).nth(1).click()
    expect(page.locator("#label h3")).to_have_text("subject 0000053")
    expect(page.locator("#label")).to_contain_text("in 53 training texts")
    page.get_by_role("button", name="All labels").click()
    expect(page.locator("#found")).to_have_text("50 branches with 1,000,000 labels")
    page.locator("#label").get_by_role("button", name="branch 3").click()
    expect(page.locator("#found")).to_have_text("20,000 labels")


def test_the_tree_is_walked_by_keyboard(opened):
    page = opened.visit("labels")
    expect(rows(page).first).to_be_visible()
    page.get_by_role("listbox", name="Labels").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(rows(page).nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("#crumbs")).to_contain_text("branch 1")
    page.keyboard.press("End")
    expect(page.locator("[aria-selected=true].virtual-row")).to_have_attribute("aria-posinset", "20000")
    expect(page.locator("[aria-selected=true].virtual-row")).to_have_text("subject 0999951")
    page.keyboard.press("Enter")
    expect(page.locator("#label h3")).to_have_text("subject 0999951")
    page.keyboard.press("Backspace")
    expect(page.locator("#found")).to_have_text("50 branches with 1,000,000 labels")


def test_of_a_million_rows_few_are_in_the_page_and_few_pages_are_fetched(opened):
    page = opened.visit("labels")
    page.fill("#find", "subject")
    expect(page.locator("#found")).to_have_text("1,000,000 labels found")
    expect(rows(page).first).to_contain_text("subject 0000000")
    assert rows(page).count() <= FEW
    asked = opened.fake.count("/v1/labels")
    scroller = page.locator("#shelf-list")
    scroller.evaluate(DRAG)
    expect(rows(page).last).to_contain_text("subject 0999999")
    assert rows(page).count() <= FEW
    assert opened.fake.count("/v1/labels") - asked <= 30  # of the hundred pages on the way
    box, last = scroller.bounding_box(), rows(page).last.bounding_box()
    assert last["y"] + last["height"] <= box["y"] + box["height"] + 2  # the last row is reached, not beyond the end


def test_search_by_name_and_by_meaning(opened):
    page = opened.visit("labels")
    page.fill("#find", "cat")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("radio", name="by meaning").check()
    expect(rows(page)).to_have_count(1)
    page.wait_for_timeout(200)
    assert opened.fake.requests[-1][1]["by"] == "meaning"
    page.fill("#find", "nothing like it")
    expect(page.locator("#found")).to_have_text("0 labels found")
    expect(page.locator("#shelf")).to_be_hidden()


def test_what_is_typed_while_the_tree_is_on_its_way_stays(opened):
    held = []
    opened.page.route("**/v1/tree?*", lambda route: held.append(route))
    page = opened.visit("labels")
    page.fill("#find", "cat")
    held[0].continue_()
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#find")).to_have_value("cat")


def test_a_model_without_a_tree_lists_its_labels(opened):
    page = opened.visit("labels")
    page.select_option("#model", "beta")
    expect(page.locator("#found")).to_have_text("1,000,000 labels")
    expect(page.locator("#crumbs")).to_be_empty()


def test_a_link_leads_to_a_label_and_the_label_to_the_text(opened):
    page = opened.visit("labels/n7")
    expect(page.locator("#label h3")).to_have_text("subject 0000007")
    expect(page.get_by_role("button", name="Add to the text")).to_be_disabled()
    page.click("#tab-tag")
    opened.type("a cat")
    page.click("#tab-labels")
    known = page.locator("#label .vocabulary")
    expect(known.locator("dt")).to_have_text(["also called", "broader"])
    expect(known.locator("dd")).to_have_text(["moggies", "pussycats", "dogs"])
    known.get_by_role("button", name="dogs").click()
    page.get_by_role("button", name="Add to the text").click()
    expect(page.locator("#chosen .chip")).to_have_text(["dogs×"])


def test_a_label_that_does_not_exist_is_said(opened):
    opened.allowed = ["Failed to load resource"]
    name = "nobody" * 9
    page = opened.visit(f"labels/{name}")
    expect(page.get_by_role("alert")).to_contain_text(f"label '{name}': not in this model.")
    for width in (1280, 360):  # a long sentence leaves the button its place
        page.set_viewport_size({"width": width, "height": 700})
        assert page.get_by_role("button", name="Close").bounding_box()["height"] < 40
