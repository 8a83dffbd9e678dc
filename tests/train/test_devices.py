import pytest

torch = pytest.importorskip("torch")
from treetop.train import devices

CPU = torch.device("cpu")


def test_a_seed_draws_what_torch_would_draw():
    with torch.random.fork_rng(devices=[]):
        for number in (0, 7, (3 << 32) + 5 * 1024 + 1):
            torch.manual_seed(number)
            expected = torch.rand(5)
            devices.seed(number, CPU)
            assert torch.equal(torch.rand(5), expected)
