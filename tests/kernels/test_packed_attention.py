import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.kernels.gpu.packed_attention import attend, beyond_tiles


def test_every_sequence_attends_to_itself_alone():
    torch.manual_seed(0)
    starts = torch.tensor([0, 1, 3, 5, 5, 10], dtype=torch.int32)  # one is empty
    q, k, v = (torch.randn(10, 3, 4) for _ in range(3))
    made = attend(q, k, v, starts, scale=0.5)
    for a, b in ((0, 1), (1, 3), (3, 5), (5, 10)):
        for head in range(3):
            weights = torch.softmax(q[a:b, head] @ k[a:b, head].T * 0.5, dim=1)
            torch.testing.assert_close(made[a:b, head], weights @ v[a:b, head])


def test_lengths_beyond_the_tiles_are_rounded_up():
    assert [beyond_tiles(n) for n in (0, 17, 128, 129, 300)] == [0, 0, 0, 256, 384]


def test_fused_programs_equal_the_twin():
    """Runs where Triton is installed: on a GPU, or anywhere with TRITON_INTERPRET=1."""
    import os

    pytest.importorskip("triton")
    gpu = torch.cuda.is_available()
    if not gpu and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("no GPU, and TRITON_INTERPRET is not set")
    device, kind = (torch.device("cuda"), torch.bfloat16) if gpu else (torch.device("cpu"), torch.float32)
    from treetop.kernels.gpu.packed_attention import attend_plain

    torch.manual_seed(0)
    lengths = np.array([0, 1, 5, 31, 32, 33, 64, 65, 97, 127, 128, 0])
    starts = torch.tensor(np.concatenate([[0], np.cumsum(lengths)]), dtype=torch.int32, device=device)
    shape = (int(starts[-1]), 2, 32)
    q, k, v = (torch.randn(shape, device=device, dtype=kind, requires_grad=True) for _ in range(3))
    fused = torch.ops.treetop.packed_attention(q, k, v, starts, starts[:1], 0.2, 0.0)[0]
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    twin = attend_plain(*wide, starts, scale=0.2)
    near = 2e-2 if gpu else 1e-5
    torch.testing.assert_close(fused.float(), twin, rtol=near, atol=near)
    slope = torch.randn_like(twin)
    for a, b in zip(
        torch.autograd.grad(fused, (q, k, v), slope.to(kind)), torch.autograd.grad(twin, wide, slope), strict=True
    ):
        assert (a.float() - b).norm() / b.norm() < near
