"""Uniformity, recomputed pair by pair, and what has no number."""

import math

import pytest
import torch
from torch import Tensor

from contrastcli.model.metrics import alignment, spread, uniformity


def test_uniformity_is_the_log_mean_kernel_over_pairs_of_different_rows() -> None:
    many = torch.randn(1500, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)  # beyond one block
    distances = torch.pdist(torch.nn.functional.normalize(many, dim=1))
    expected = torch.exp(-2 * distances.square()).mean().log().item()
    assert uniformity(many) == pytest.approx(expected, rel=1e-5)


def test_uniformity_has_the_distances_of_zero_vectors() -> None:
    vectors = torch.eye(7)[:, :3] * torch.tensor([5.0, 0.0, 0.0])
    kernel = [1.0] * 30 + [math.exp(-2)] * 12
    assert uniformity(vectors) == pytest.approx(math.log(sum(kernel) / len(kernel)), rel=1e-5)


def test_without_pairs_there_is_no_number() -> None:
    assert math.isnan(alignment(torch.empty(0, 3), torch.empty(0, 3)))
    assert math.isnan(uniformity(torch.ones(1, 3)))


@pytest.mark.parametrize("rows", [torch.full((4, 3), math.nan), torch.zeros(4, 3), torch.empty(0, 3)])
def test_vectors_without_a_direction_have_no_rank(rows: Tensor) -> None:
    rank, mean_norm, singular = spread(rows)
    assert math.isnan(rank) and math.isnan(mean_norm) and singular == []
