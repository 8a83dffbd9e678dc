"""The page on `treetop serve` itself, with a small calibrated model: the answers fit what the page expects."""

import re
import signal
import subprocess
import sys

import pytest
from playwright.sync_api import expect

import toy
import treetop
from treetop.assemble.held_out.scores import calibrated

pytestmark = pytest.mark.browser
SETTINGS = {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5, "branching": 2}}
SECRET = "a-secret-of-the-tests"
REPORT = "<!doctype html><html lang=en><title>r</title><style>h1 { color: red }</style><h1>The report</h1></html>"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a server with two models, a token and a report."""
    folder = tmp_path_factory.mktemp("served")
    model = treetop.fit("xr_linear", toy.dataset(n=400), settings=SETTINGS, calibrate=False)
    model.save(folder / "plain")
    calibrated(model, toy.dataset(seed=1, n=700)).save(folder / "sure")
    (folder / "token").write_text(SECRET)
    (folder / "report" / "sure").mkdir(parents=True)
    (folder / "report" / "sure" / "index.html").write_text(REPORT)
    command = [sys.executable, "-m", "treetop", "serve", folder / "sure", folder / "plain", "--port", "0"]
    command += ["--workers", "1", "--feedback", folder / "feedback.sqlite", "--token-file", folder / "token"]
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    address = next((found[0] for line in process.stderr if (found := re.search(r"http://[\d.:]+", line))), None)
    assert address, "the server did not start"
    yield f"{address}/"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)


@pytest.fixture
def real(opened, served):
    """The page of the real server, after the token was given."""
    opened.allowed += ["Failed to load resource", served]  # the first request is refused: there is no token yet
    opened.page.goto(served)
    opened.page.get_by_label("Token", exact=True).fill(SECRET)
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector("body[data-ready]")
    return opened.page


def test_labels_explanations_and_verdicts(real):
    real.fill("#text", "cat birds horse fishs 🐈 cat")
    rows = real.locator("#suggestions .row")
    expect(rows.first).to_be_visible()
    expect(real.locator("#precision label")).to_have_count(3)
    rows.first.locator(".name").click()
    expect(real.locator("#backdrop mark.for").first).to_be_visible()
    expect(real.locator("#suggestions .steps li").nth(2)).to_be_visible()
    expect(real.locator("#text-facts")).to_contain_text("of words known")
    rows.nth(0).locator(".accept").click()
    rows.nth(1).locator(".reject").click()
    expect(real.locator("#chosen .chip")).to_have_count(1)
    real.get_by_role("combobox", name="Add a label").fill("wine")
    real.locator("#add").get_by_role("option").first.click()
    expect(real.locator("#chosen .chip")).to_have_count(2)
    real.click("#save")
    expect(real.locator("#save")).to_have_text("Saved")
    stats = real.request.get(
        f"{real.url.split('#')[0]}v1/feedback/stats", headers={"Authorization": f"Bearer {SECRET}"}
    ).json()
    assert [stats[key] for key in ("accept", "reject", "add", "sets")] == [1, 1, 1, 1]


def test_the_tree_search_and_one_label(real):
    real.click("#tab-labels")
    expect(real.locator("#found")).to_contain_text("branches with 40 labels")
    real.locator("#shelf .virtual-row").first.click()
    expect(real.locator("#crumbs button")).to_have_count(1)
    real.fill("#find", "cat")
    expect(real.locator("#found")).to_contain_text("found")
    real.locator("#shelf .virtual-row").first.click()
    expect(real.locator("#label h3")).to_contain_text("cat")
    real.locator("#label ol button").first.click()
    expect(real.locator("#crumbs button")).to_have_count(1)
    real.get_by_role("radio", name="by meaning").check()
    real.fill("#find", "a dog and horses")
    expect(real.locator("#shelf .virtual-row").first).to_be_visible()


def test_batch_compare_report_and_card(real):
    real.click("#tab-batch")
    rows = "".join(f"{i},a cat and birds number {i}\n" for i in range(200))
    real.set_input_files("#files", [{"name": "in.csv", "mimeType": "", "buffer": f"id,text\n{rows}".encode()}])
    expect(real.locator("#progress-says")).to_contain_text("Done · 200 texts")
    expect(real.locator("#rows .failed")).to_have_count(0)
    real.click("#tab-compare")
    real.fill("#compare-text", "a cat and birds")
    expect(real.locator("#sides .row")).to_have_count(20)
    expect(real.locator("#compare-says")).to_have_text("10 of 10 labels in both")
    real.click("#tab-report")
    title = real.frame_locator("#report-frame").locator("h1")
    expect(title).to_have_text("The report")
    expect(title).to_have_css("color", "rgb(255, 0, 0)")  # its own styles hold
    real.click("#tab-card")
    expect(real.locator("#card-text h2")).to_contain_text("xr_linear over 40 labels")
