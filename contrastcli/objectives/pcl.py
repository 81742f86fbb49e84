"""PCL: two encoders, net and peer, that learn from many views of every sentence and from each other.

Wu et al., 2022 (PCL); SimACE, Eq. 12. A row's list is the softmax of its anchor's similarities to the row's own views
(the positive, which is a dropout copy, and the perturbed ones) and to the other rows' positives.
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, Views, mask_logits, mean_over
from contrastcli.objectives.infonce import contrast
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import paired, pairwise
from contrastcli.settings.losses import PCL

PEER = "peer_"
"""The prefix of the names of the peer's views."""


def pcl(views: Views, rows: Rows, heads: nn.ModuleDict, settings: PCL) -> Result:
    """InfoNCE of the net + InfoNCE of the peer + group + across + within, each a mean over the rows.

    With P(f, g) the lists of f's anchors over g's views:

    - group:  the mean over a row's own views of −log P(net, peer), and the same of P(peer, net);
    - across: KL( P(peer, net) ‖ P(net, peer) );
    - within: KL( P(peer, peer) ‖ P(net, net) ).

    Views: anchor, positive, then any further ones of the same rows, (N, d), and the peer's of all these. The margin, in
    the unit of `similarity`, is used by InfoNCE only. Every term trains both encoders. No heads.
    Parts: contrast and peer (InfoNCE of each), group, across, within.
    """
    names = [name for name in views if not name.startswith(PEER)]
    net, peer = {name: views[name] for name in names}, {name: views[PEER + name] for name in names}
    terms = {"contrast": contrast(net, rows, settings.in_batch()), "peer": contrast(peer, rows, settings.in_batch())}
    similarity, tau = settings.chosen_similarity, settings.tau
    device = views["anchor"].device
    rows, all_rows = rows.to(device), torch.arange(len(views["anchor"]), device=device)
    nets, peers = (torch.stack([*of.values()]) for of in (net, peer))  # (1 + K, N, d) each

    def log_list(i: Tensor, f: Tensor, g: Tensor) -> Tensor:
        """The logarithms of lists: (n,), two (1 + K, N, d) → (n, K + N)."""
        anchor = f[0, i]
        own_views = paired(anchor, g[1:, i], similarity).T / tau  # (n, K)
        other_rows = pairwise(anchor, g[1], similarity) / tau  # (n, N)
        logits = torch.cat([own_views, mask_logits(other_rows, rows.negatives(i, ["positive"]))], dim=1)
        return logits.log_softmax(dim=1)

    def group(i: Tensor, net: Tensor, peer: Tensor) -> Tensor:
        lists = log_list(i, net, peer) + log_list(i, peer, net)
        return -lists[:, : len(names) - 1].mean(dim=1)

    def across(i: Tensor, net: Tensor, peer: Tensor) -> Tensor:
        return divergence(log_list(i, peer, net), log_list(i, net, peer))

    def within(i: Tensor, net: Tensor, peer: Tensor) -> Tensor:
        return divergence(log_list(i, peer, peer), log_list(i, net, net))

    for name, term in (("group", group), ("across", across), ("within", within)):
        terms[name] = mean_over(all_rows, term, nets, peers)
    return torch.stack(list(terms.values())).sum(), terms


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(P ‖ Q) of two lists of log-probabilities: two (n, M) → (n,)."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)
