"""Three losses in Python; `curricle run recipe.toml --plugin losses.py` uses them like built-in ones."""

import torch
import torch.nn.functional as F


def weighted_mean(values, weights):
    """The mean, or 0 if all weights are 0."""
    return (weights * values).sum() / weights.sum().clamp(min=1e-12)


def pairs(labels, ids, weights):
    """Masks of the positive and negative pairs [B, B]. Samples of weight 0 have none, nor have two copies of one."""
    same_class = labels[:, None] == labels
    present = weights[:, None] * weights > 0
    return same_class & (ids[:, None] != ids) & present, ~same_class & present


class Circle(torch.nn.Module):
    """Circle loss (Sun et al., CVPR 2020): pairs far from their optimum weigh more.

    Args:
        margin: Relaxation factor m.
        gamma: Scale factor γ of the similarities.
    """

    def __init__(self, margin: float = 0.4, gamma: float = 80.0):
        super().__init__()
        self.margin, self.gamma = margin, gamma

    def forward(self, embeddings, labels, weights, ids):
        s = embeddings @ embeddings.T
        positive, negative = pairs(labels, ids, weights)
        alpha_p = F.relu(1 + self.margin - s.detach())
        alpha_n = F.relu(s.detach() + self.margin)
        positive = self.log_sum_exp(-self.gamma * alpha_p * (s - 1 + self.margin), positive)
        negative = self.log_sum_exp(self.gamma * alpha_n * (s - self.margin), negative)
        return weighted_mean(F.softplus(positive + negative), weights)

    def log_sum_exp(self, logits, pairs):
        # A row without pairs is very negative, so that softplus makes it 0, but not -inf, whose gradient is NaN.
        return logits.where(pairs, -1000 - 10 * self.gamma).logsumexp(1)


class ProxyNCA(torch.nn.Module):
    """Proxy-NCA++ (Teh et al., ECCV 2020): one learnable proxy per class.

    Args:
        temperature: Temperature of the softmax over proxies.
    """

    def __init__(self, num_classes: int, embedding_size: int, temperature: float = 0.11):
        super().__init__()
        self.temperature = temperature
        self.proxies = torch.nn.Parameter(torch.randn(num_classes, embedding_size))

    def forward(self, embeddings, labels, weights):
        distances = torch.cdist(F.normalize(embeddings), F.normalize(self.proxies)).square()
        each = F.cross_entropy(-distances / self.temperature, labels, reduction="none")
        return weighted_mean(each, weights)


class CentredContrastive(torch.nn.Module):
    """Contrastive loss on embeddings from which a running mean is subtracted.

    Args:
        pos_margin: Similarity above which a positive pair has no loss.
        neg_margin: Similarity below which a negative pair has no loss.
        momentum: Share of the mean that a step keeps.
    """

    def __init__(
        self, embedding_size: int, pos_margin: float = 0.9, neg_margin: float = 0.1, momentum: float = 0.99
    ):
        super().__init__()
        self.pos_margin, self.neg_margin, self.momentum = pos_margin, neg_margin, momentum
        # A buffer, so that curricle saves it and a resumed run continues with it.
        self.register_buffer("mean", torch.zeros(embedding_size))

    def forward(self, embeddings, labels, weights, ids):
        x = F.normalize(embeddings - self.mean)
        s = x @ x.T
        with torch.no_grad():
            self.mean.lerp_(weights @ embeddings / weights.sum().clamp(min=1e-12), 1 - self.momentum)
        w = weights[:, None] * weights
        positive, negative = pairs(labels, ids, weights)
        pull = weighted_mean(F.relu(self.pos_margin - s), positive * w)
        push = weighted_mean(F.relu(s - self.neg_margin), negative * w)
        return pull + push
