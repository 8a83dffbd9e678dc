"""A container of the image that `make container` built, started as docs/server.md says, and asked."""

import shutil
import subprocess
import time

import httpx
import pytest

import treetop

pytestmark = pytest.mark.container
TEXTS = ["a small domestic cat", "a large wild cat", "a domestic dog", "a wolf in the forest"] * 3
LABELS = [["animal", "cat", "pet"], ["animal", "cat"], ["animal", "dog", "pet"], ["animal", "wild"]] * 3
TOKEN = "a secret of sixteen and more".replace(" ", "-")
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]  # some virtual machines let nobody raise them


def podman(*words, check=True):
    done = subprocess.run(["podman", *words], check=False, capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return done


class Container:
    def __init__(self, home):
        self.home = home
        self.name = podman(
            "run", "-d", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges",
            "-v", f"{home}/models:/models:ro", "-v", f"{home}/token:/run/token:ro", "-p", "127.0.0.1::8000",
            *LIMITS, "treetop",
        ).stdout.strip()  # fmt: skip
        address = podman("port", self.name, "8000/tcp").stdout.strip()
        self.asked = httpx.Client(base_url=f"http://{address}", headers={"authorization": f"Bearer {TOKEN}"})

    def wait(self, ready):
        for _ in range(240):
            try:
                if ready():
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.25)
        raise AssertionError(podman("logs", self.name, check=False).stderr)

    def version(self):
        return self.asked.get("/v1/models").json()["models"][0]["version"]


@pytest.fixture(scope="module")
def container(tmp_path_factory):
    if shutil.which("podman") is None or podman("image", "exists", "treetop", check=False).returncode:
        pytest.skip("needs the image: make container")
    home = tmp_path_factory.mktemp("container")
    for folder in (home, *home.parents[:2]):
        folder.chmod(0o755)  # for the user of the container
    treetop.fit("xr_linear", TEXTS, LABELS).save(home / "models" / "model")
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o644)
    found = Container(home)
    yield found
    found.asked.close()
    podman("rm", "-f", "-v", found.name, check=False)


def test_it_answers(container):
    container.wait(lambda: container.asked.get("/healthz").status_code == 200)
    answer = container.asked.post("/v1/predict", json={"texts": ["my old cat"], "k": 2})
    assert [label["name"] for label in answer.json()["results"][0]["labels"]] == ["animal", "cat"]
    assert container.asked.post("/v1/predict", json={}, headers={"authorization": ""}).status_code == 401
    assert podman("healthcheck", "run", container.name).returncode == 0


def test_it_is_not_root_and_writes_only_where_it_may(container):
    assert podman("exec", container.name, "id", "-u").stdout.strip() == "10001"
    assert "Read-only" in podman("exec", container.name, "touch", "/x", check=False).stderr
    assert "0000000000000000" in podman("exec", container.name, "grep", "CapEff", "/proc/1/status").stdout
    kept = container.asked.post("/v1/feedback", json={"text": "my old cat", "label": "cat", "verdict": "accept"})
    assert kept.status_code == 201


def test_a_model_that_is_replaced_is_seen_and_the_end_is_clean(container):
    before = container.version()
    fewer = [labels[:1] for labels in LABELS]
    treetop.fit("xr_linear", TEXTS, fewer).save(container.home / "models" / "model", overwrite=True)
    container.wait(lambda: container.version() != before)
    podman("stop", "-t", "6", container.name)
    assert podman("inspect", "--format", "{{.State.ExitCode}}", container.name).stdout.strip() == "0"
