import pytest

torch = pytest.importorskip("torch")
from treetop.core.errors import ConfigError
from treetop.tensors import devices

CPU = torch.device("cpu")


def test_a_seed_draws_what_torch_would_draw():
    with torch.random.fork_rng(devices=[]):
        for number in (0, 7, (3 << 32) + 5 * 1024 + 1):
            torch.manual_seed(number)
            expected = torch.rand(5)
            devices.seed(number, CPU)
            assert torch.equal(torch.rand(5), expected)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.pick("cuda:1") == torch.device("cuda:1") and devices.pick("cuda").index == 0
    with pytest.raises(ConfigError, match=r"--device: there is no GPU 2 here\. Allowed: cuda:0 to cuda:1"):
        devices.pick("cuda:2")
