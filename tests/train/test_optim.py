import pytest

torch = pytest.importorskip("torch")
from treetop.core.config import build
from treetop.core.errors import ConfigError
from treetop.train.optim import AdamConfig, AdamW, DescentConfig, ScheduleConfig, rate


def toy(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 3))


def test_adamw_equals_torch_with_groups_and_decay():
    ours, theirs = toy(), toy()
    config = AdamConfig(lr=0.01, weight_decay=0.1)
    optimiser = AdamW({"net": (ours, config)})
    decayed = [p for p in theirs.parameters() if p.ndim > 1]
    plain = [p for p in theirs.parameters() if p.ndim <= 1]
    twin = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=0.01, foreach=False
    )
    x = torch.randn(20, 5)
    for factor in (1.0, 0.5, 0.25):
        for net, step in ((ours, lambda f=factor: (optimiser.rates.set(f), optimiser.step())), (theirs, twin.step)):
            for group in twin.param_groups:
                group["lr"] = 0.01 * factor
            net(x).square().mean().backward()
            step()
        twin.zero_grad()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_low_precision_weights_follow_float32_masters():
    net = toy()
    plain = {f"net.{name}": value.clone() for name, value in net.state_dict().items()}
    config = AdamConfig(lr=1e-5, weight_decay=0.0)
    optimiser = AdamW({"net": (net, config)}, low={"net"}, kind=torch.bfloat16)
    assert all(torch.equal(optimiser.masters[name], value) for name, value in plain.items())
    start = {name: value.clone() for name, value in optimiser.masters.items()}
    x = torch.randn(8, 5, dtype=torch.bfloat16)
    for _ in range(20):
        net(x).float().square().mean().backward()
        optimiser.collect()
        optimiser.step()
    # One step of 1e-5 is lost in bfloat16; twenty of them must not be lost in the master.
    moved = [(optimiser.masters[name] - value).abs().max().item() for name, value in start.items()]
    assert max(moved) > 1e-4
    for weight, master in zip(optimiser.groups[0].weights, optimiser.groups[0].masters, strict=True):
        assert torch.equal(weight, master.to(torch.bfloat16))


def test_clip_limits_the_norm_per_group():
    net = toy()
    optimiser = AdamW({"net": (net, AdamConfig(lr=0.0))}, clip=0.5)
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 10.0)
    seen = []
    real = torch._fused_adamw_

    def watch(weights, grads, *rest, **named):
        seen.append(torch.stack([g.norm() for g in grads]).norm().item())
        return real(weights, grads, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "_fused_adamw_", watch)
        optimiser.step()
    assert seen == pytest.approx([0.5, 0.5], abs=1e-4)


def test_schedules_rise_and_fall_as_named():
    flat = ScheduleConfig(kind="constant", warmup=0.1, anneal=0.2)
    factors = [rate(flat, step, 100) for step in range(100)]
    assert factors[0] < 0.2 and factors[9] == pytest.approx(1.0)
    assert factors[10:80] == [1.0] * 70
    assert factors[-1] == pytest.approx(0.001) and factors[85] > factors[95]
    linear = [rate(ScheduleConfig(kind="linear", warmup=0.1), step, 100) for step in range(100)]
    assert linear[0] == pytest.approx(1 / 11) and linear[10] == 1.0 and linear[55] == pytest.approx(0.5)
    assert linear[-1] == pytest.approx(1 / 90)
    cosine = [rate(ScheduleConfig(kind="cosine"), step, 10) for step in range(10)]
    assert cosine[0] == 1.0 and cosine[5] == pytest.approx(0.5)


def test_low_precision_weights_no_loss_touched_stay_as_they_are():
    net = toy()
    config = AdamConfig(lr=0.1, weight_decay=0.0)
    optimiser = AdamW({"still": (net[0], config), "net": (net[2], config)}, low={"still", "net"}, kind=torch.bfloat16)
    before = {name: value.clone() for name, value in optimiser.masters.items()}
    for _ in range(2):  # micro-batches
        net[2](torch.randn(4, 7, dtype=torch.bfloat16)).square().mean().backward()
        optimiser.collect()
    optimiser.step()
    moved = {name: not torch.equal(value, before[name]) for name, value in optimiser.masters.items()}
    assert moved == {name: name.startswith("net") for name in before}


@pytest.mark.parametrize("rate_", [0, -1.0, 1e-12, 1e9, float("nan"), float("inf")])
@pytest.mark.parametrize(("kind", "most"), [(AdamConfig, 10.0), (DescentConfig, 1e6)])
def test_rates_that_teach_nothing_or_run_away_are_refused(kind, most, rate_):
    with pytest.raises(ConfigError, match=rf"^learn\.lr: .* is out of range\. Allowed: 1e-0[69] to {most}\."):
        build(kind, {"lr": rate_}, path="learn")
    assert build(kind, {"lr": most}).lr == most
