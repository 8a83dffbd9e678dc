"""A server and a client of it; the same requests work from any language."""

import json
import re
import subprocess
import sys
from urllib.request import Request, urlopen

import treetop

texts = ["a small domestic cat", "a large wild cat", "a domestic dog", "a wolf in the forest"]
labels = [["animal", "cat", "pet"], ["animal", "cat"], ["animal", "dog", "pet"], ["animal", "wild"]]
treetop.fit("neighbours", texts, labels, out="served/", overwrite=True)

command = [sys.executable, "-m", "treetop", "serve", "served/", "--port", "0", "--workers", "1"]
command += ["--feedback", "feedback.sqlite"]


def post(path, **body):
    request = Request(address + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
    try:
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.]+:\d+", line)))
        for result in post("/v1/predict", texts=["my old cat", "a dog"], k=2)["results"]:
            print([label["name"] for label in result["labels"]])
        print(post("/v1/feedback", text="my old cat", label="pet", verdict="add"))
    finally:
        server.terminate()
