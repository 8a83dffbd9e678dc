"""Reading streams: a large file never needs twice its size in memory."""

import json
import subprocess
import sys

import pytest

CODE = """
import resource, sys
from treetop.data.read import read
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
read(sys.argv[1])
before = peak()
data = read(sys.argv[2])
print(len(data), peak() - before)
"""


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_peak_memory_is_under_twice_the_file(tmp_path, ending):
    if sys.platform != "linux":
        pytest.skip("ru_maxrss is in other units elsewhere")
    small, large = tmp_path / f"small.{ending}", tmp_path / f"large.{ending}"
    if ending == "jsonl":
        head, line = "", json.dumps({"text": "a few words of text " * 8, "labels": ["label-%d", "label-7"]}) + "\n"
    else:
        head, line = "text,labels\n", "a few words of text " * 8 + ",label-%d|label-7\n"
    rows = 20_000_000 // len(line)
    with large.open("w") as out:
        out.write(head)
        out.writelines(line % (i % 5000) for i in range(rows))
    small.write_text(head + line % 1)
    done = subprocess.run([sys.executable, "-c", CODE, small, large], capture_output=True, text=True, check=True)
    count, used = map(int, done.stdout.split())
    assert count == rows
    assert used < 2 * large.stat().st_size
