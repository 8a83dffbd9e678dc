"""Around the tabs: tabs themselves, token, versions, compare, report, card, colours, accessibility."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.fake import MARKUP

pytestmark = pytest.mark.browser
AXE = Path(__file__).parent.parent.parent / "build/axe/node_modules/axe-core/axe.min.js"
TABS = ["tag", "labels", "batch", "compare", "report", "card"]


def test_tabs_by_keyboard_and_history(opened):
    page = opened.visit()
    page.locator("#tab-tag").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#labels")).to_be_visible()
    expect(page.locator("#tab-labels")).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator("#card")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tag")).to_be_visible()
    page.go_back()
    expect(page.locator("#card")).to_be_visible()
    page.select_option("#model", "beta")
    expect(page.locator("#tab-report")).to_be_hidden()


def test_a_token_is_asked_for_kept_and_asked_again_where_it_is_wrong(opened):
    opened.allowed = ["Failed to load resource"]
    opened.fake.token = "correct"
    page = opened.page
    page.goto(opened.url)
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_label("Token", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-says")).to_contain_text("The server refused this token.")
    page.get_by_label("Token", exact=True).fill("correct")
    page.get_by_role("button", name="Continue").click()
    page.wait_for_selector("body[data-ready]")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.evaluate("localStorage.length") == 0


def test_without_a_token_the_page_says_what_to_do(opened):
    opened.allowed = ["Failed to load resource"]
    opened.fake.token = "correct"
    opened.page.goto(opened.url)
    opened.page.get_by_role("button", name="Cancel").click()
    expect(opened.page.get_by_role("alert")).to_contain_text("this server asks for a token. Reload the page")


def test_a_server_that_is_gone_is_said(opened):
    opened.allowed = ["Failed to load resource"]
    page = opened.visit()
    page.route("**/v1/predict", lambda route: route.abort())
    opened.type("a cat")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".error")).to_have_count(0)


def test_the_version_follows_the_server(opened):
    page = opened.visit()
    expect(page.locator("#version")).to_have_text("0123456789ab")
    opened.type("a cat")
    page.get_by_role("button", name="Accept cats").click()
    expect(page.locator("#chosen .chip")).to_have_count(1)
    opened.fake.version = "ba9876543210+1"
    opened.type("a cat and a dog")
    expect(page.locator("#version")).to_have_text("ba9876543210+1")
    expect(page.locator("#suggestions .row")).to_have_count(2)
    expect(page.locator("#chosen .chip")).to_have_count(1)  # the same model, so choices stay
    page.select_option("#model", "beta")
    expect(page.locator("#chosen .chip")).to_have_count(0)


def test_workers_with_different_versions_do_not_set_the_page_spinning(opened):
    page = opened.visit()
    opened.fake.versions = ["one", "two", "three"]
    opened.type("a cat")
    page.wait_for_timeout(1500)
    assert opened.fake.count("/v1/model") <= 2  # the first, and one look at what is new


def test_a_server_without_feedback_keeps_choices_in_the_page(opened):
    page = opened.visit()
    page.select_option("#model", "beta")
    expect(page.locator("#save-means")).to_contain_text("without --feedback")
    opened.type("a cat")
    page.get_by_role("button", name="Accept cats").click()
    expect(page.locator("#chosen .chip")).to_have_text(["cats×"])
    assert opened.fake.feedback == []


def test_two_models_on_one_text(opened):
    page = opened.visit()
    opened.type("a cat and a dog")
    page.click("#tab-compare")
    expect(page.locator("#compare-text")).to_have_value("a cat and a dog")
    first, second = page.locator("#sides .sheet").all()
    expect(first.locator(".name")).to_have_text(["cats", "dogs"])
    expect(second.locator(".name")).to_have_text(["dogs", "cats", "music"])
    expect(second.locator(".place")).to_have_text(["1 higher", "1 lower", "only here"])
    expect(page.locator("#compare-says")).to_have_text("2 of 3 labels in both")
    page.fill("#compare-text", "music")
    expect(first.locator(".name")).to_have_text(["music"])
    page.select_option("#side-0", "beta")
    expect(first.locator(".place")).to_have_text(["same place"])


@pytest.mark.parametrize("token", ["", "correct"])
def test_the_report_is_shown_and_cannot_run_anything(opened, token):
    opened.allowed = ["Blocked script execution", "Failed to load resource"]
    opened.fake.token = token
    page = opened.page
    page.goto(f"{opened.url}#report")
    if token:
        page.get_by_label("Token", exact=True).fill(token)
        page.keyboard.press("Enter")
    expect(page.frame_locator("#report-frame").locator("h1")).to_have_text("The report")
    assert page.evaluate("window.hacked") is None


def test_the_card_is_text_with_structure(opened):
    page = opened.visit("card")
    card = page.locator("#card-text")
    expect(card.locator("h2")).to_have_text("alpha over 1,000,000 labels")
    expect(card.locator("strong")).to_have_text("3")
    expect(card.locator("a")).to_have_attribute("href", "https://example.org/paper")
    expect(card.locator("li")).to_have_text(["first", MARKUP])
    expect(card.locator("td")).to_have_text(["P@1", "90.10"])
    expect(card.locator("pre")).to_have_text('{"a": 1}')
    expect(card.locator("img")).to_have_count(0)
    expect(page.locator("#facts")).to_contain_text("1,000,000")
    expect(page.locator("#facts")).to_contain_text("0.55, finds 60 % of a text's labels")


def test_colours_follow_the_system_until_chosen(opened):
    page = opened.visit()
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert light != dark
    page.click("#theme")
    assert page.evaluate(ground) == light
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate(ground) == light
    page.click("#theme")
    assert page.evaluate(ground) == dark


def prepared(opened, tab):
    """A tab with something in it."""
    page = opened.visit()
    opened.type("the odd cat and the house")
    page.get_by_role("button", name="cats", exact=True).click()
    page.get_by_role("button", name="Accept houses").click()
    expect(page.locator("#backdrop mark.for")).to_have_count(1)
    page.click(f"#tab-{tab}")
    if tab == "labels":
        page.locator("#shelf .virtual-row").nth(2).click()
        page.locator("#shelf .virtual-row").nth(2).click()
    if tab == "batch":
        page.set_input_files("#files", [{"name": "a.txt", "mimeType": "", "buffer": b"a cat\na dog\n"}])
    page.wait_for_timeout(400)
    return page


@pytest.mark.parametrize("tab", TABS)
def test_nothing_is_wider_than_a_phone(opened, tab):
    opened.allowed = ["Blocked script execution"]
    opened.page.set_viewport_size({"width": 360, "height": 740})
    page = prepared(opened, tab)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("tab", TABS)
def test_axe_finds_nothing_serious(opened, tab, scheme):
    opened.allowed = ["Blocked script execution"]
    assert AXE.is_file(), "run `make test-browser`, which fetches axe-core"
    opened.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    assert violations(prepared(opened, tab)) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_dialog_a_list_that_is_open_and_an_error(opened, scheme):
    opened.allowed = ["Failed to load resource"]
    opened.fake.token = "correct"
    page = opened.page
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.goto(opened.url)
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Token", exact=True).fill("correct")
    page.keyboard.press("Enter")
    page.get_by_role("combobox", name="Add a label").fill("dom")
    expect(page.locator("#add").get_by_role("option")).to_have_count(1)
    opened.fake.fail = "/v1/predict"
    page.evaluate("document.getElementById('text').value = 'cat'")
    page.locator("#text").dispatch_event("input")
    expect(page.get_by_role("alert")).to_contain_text("The disk is full.")
    assert violations(page) == []


def violations(page):
    """What axe complains about: its rules, with the elements."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { iframes: false })")
    return [(each["id"], [node["html"][:150] for node in each["nodes"][:3]]) for each in found["violations"]]
