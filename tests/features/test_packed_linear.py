import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from treetop.features.encoder import packed_linear


def test_packed_layers_give_the_same_and_follow_their_weights():
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(12, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5, bias=False))
    x = torch.randn(4, 3, 12)
    names = set(body.state_dict())
    expected = body(x)
    packed_linear.exchange(body)
    assert set(body.state_dict()) == names
    if packed_linear.available():
        assert isinstance(body[0], packed_linear.PackedLinear)
    with torch.inference_mode():
        torch.testing.assert_close(body(x), expected)
    slope = torch.autograd.grad(body(x).square().sum(), list(body.parameters()))
    assert all(part.abs().max() > 0 for part in slope)
    with torch.no_grad():
        body[0].weight.mul_(2.0)  # in place, as an optimiser does
        body[2].weight.data = body[2].weight.data * 3.0
    changed = body(x)
    with torch.inference_mode():
        torch.testing.assert_close(body(x), changed)
    assert not torch.allclose(changed, expected)


def test_a_torch_without_them_keeps_its_own_layers(monkeypatch):
    monkeypatch.setattr(packed_linear, "available", lambda: False)
    body = torch.nn.Sequential(torch.nn.Linear(3, 3))
    packed_linear.exchange(body)
    assert type(body[0]) is torch.nn.Linear
