"""Products and sums that do not hang on the flags of the process."""

import pytest
import torch

from geoalign.method.arithmetic import add_product, add_rows, full_linear, full_product, take_rows


@pytest.fixture(params=["highest", "high", "medium"])
def allowed(request):
    """What the process allows float32 products to be; some CPUs then compute in bfloat16."""
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision("highest")


def test_products_have_all_of_float32(allowed):
    draw = torch.Generator().manual_seed(0)
    left = torch.randn(256, 256, generator=draw)
    right = torch.randn(256, 256, generator=draw)
    bias = torch.randn(256, generator=draw)
    exact = left.double() @ right.double()
    close = {"rtol": 1e-5, "atol": 1e-4}  # bfloat16 is off by 0.1
    torch.testing.assert_close(full_product(left, right), exact.float(), **close)
    torch.testing.assert_close(full_linear(left, right.T, bias), (exact + bias).float(), **close)
    total = bias.repeat(256, 1)
    add_product(total, left, right)
    torch.testing.assert_close(total, (exact + bias).float(), **close)


def test_gradients_have_all_of_float32(allowed):
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(256, 256, generator=draw)
    weight = torch.randn(256, 256, generator=draw)
    weight.requires_grad_()
    full_linear(values, weight).square().sum().backward()
    # The gradient of the sum of squares of V W^T is 2 (V W^T)^T V.
    output = values.double() @ weight.detach().double().T
    exact = 2 * output.T @ values.double()
    torch.testing.assert_close(weight.grad, exact.float(), rtol=1e-4, atol=2e-2)


def test_rows_are_taken_and_their_gradients_added():
    # Row 2 is taken twice: its gradients 1 and 3 meet.
    values = torch.tensor([[1.0], [2.0], [4.0]], requires_grad=True)
    taken = take_rows(values, torch.tensor([2, 0, 2]))
    assert taken.tolist() == [[4.0], [1.0], [4.0]]
    gradients = torch.tensor([[1.0], [2.0], [3.0]])
    (taken * gradients).sum().backward()
    assert values.grad.tolist() == [[2.0], [0.0], [4.0]]
    # Row 0 gets 5, row 1 gets 2 and 3, row 2 nothing.
    total = add_rows(torch.ones(3), torch.tensor([1, 1, 0]), torch.tensor([2.0, 3.0, 5.0]))
    assert total.tolist() == [6.0, 6.0, 1.0]
