"""Alignment and uniformity, recomputed pair by pair, and how many dimensions vectors use."""

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


def test_the_effective_rank_counts_the_directions_that_vectors_have() -> None:
    for used in (1, 3, 8):
        rank, mean_norm, singular = spread(5 * torch.eye(8)[:used].repeat_interleave(400, 0))  # more than are measured
        assert rank == pytest.approx(used, rel=1e-4) and mean_norm == pytest.approx(used**-0.5, rel=1e-3)
        assert singular[:used] == pytest.approx([1 / used] * used, rel=1e-3)


@pytest.mark.parametrize("rows", [torch.full((4, 3), math.nan), torch.zeros(4, 3), torch.empty(0, 3)])
def test_vectors_without_a_direction_have_no_rank(rows: Tensor) -> None:
    rank, mean_norm, singular = spread(rows)
    assert math.isnan(rank) and math.isnan(mean_norm) and singular == []
