"""Writes losses.safetensors: losses and gradients in f64 that the built-in losses must reproduce.

    python3 -m pip install torch==2.13.0 pytorch-metric-learning==2.9.0 numpy safetensors
    python3 tests/golden/losses.py

Two independent sources. `pml`: pytorch-metric-learning, where it has the loss, unweighted. `loops`:
the formulas as printed, one pair or triplet at a time, differentiated by torch; for the losses and
alternatives it does not have, for weights, and for batches that hold a sample twice.

The header's `cases` says for each case: loss, settings, batch, source, weighted or not, and
`tangent`, which is true where the reference scales its input to unit length first, so that only
the part of the gradient across each embedding can be compared. `before` names the batches of earlier
steps, for losses with a cross-batch memory.
"""

import json
import pathlib

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu
from safetensors.numpy import save_file

torch.set_default_dtype(torch.float64)
CLASSES, DIM = 6, 10
rng = np.random.default_rng(7)


def batch(labels, ids=None, spread=0.9):
    """Clustered unit vectors, so that all hinges have active and inactive pairs."""
    labels = np.array(labels)
    ids = np.arange(len(labels)) if ids is None else np.array(ids)
    centres = rng.normal(size=(CLASSES, DIM))
    points = centres[labels] + spread * rng.normal(size=(len(labels), DIM))
    first = {sample: i for i, sample in reversed(list(enumerate(ids)))}
    points = points[[first[sample] for sample in ids]]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights = rng.uniform(0.1, 1.0, size=len(labels))
    weights[[2, 5]] = 0.0
    weights = weights[[first[sample] for sample in ids]]
    return {"embeddings": points, "labels": labels, "ids": ids, "weights": weights}


BATCHES = {
    "pk": batch(np.repeat([0, 1, 2, 4], 4)),
    "uneven": batch([3, 0, 1, 1, 5, 3, 3, 5, 0, 3, 5, 5, 3, 2, 1]),
    "repeats": batch([0, 1, 1, 2, 0, 2, 2, 1, 4, 2, 0, 4], [7, 1, 9, 3, 8, 3, 5, 1, 6, 2, 8, 6]),
    "one_class": batch([2] * 7),
    "singletons": batch([0, 1, 2, 3, 4, 5]),
}
PROXIES = rng.normal(size=(CLASSES, DIM)) * np.sqrt(2 / CLASSES)
BETAS = 1.2 + 0.3 * rng.normal(size=CLASSES)
for step in range(4):
    BATCHES[f"step_{step}"] = batch(np.repeat([0, 1, 3, 4], 3), 100 * step + np.arange(12))
CENTERS = rng.normal(size=(CLASSES, 3, DIM))


class Given:
    """A batch as the loops see it: samples of weight 0 are absent, except where `bspml` keeps them."""

    def __init__(self, data, weighted, keep=False):
        self.x = torch.tensor(data["embeddings"], requires_grad=True)
        self.y, self.ids = data["labels"].tolist(), data["ids"].tolist()
        self.w = data["weights"].tolist() if weighted else [1.0] * len(self.y)
        self.rows = [i for i, w in enumerate(self.w) if keep or w > 0]

    def s(self, i, j):
        return (self.x[i] * self.x[j]).sum()

    def d2(self, i, j):
        return ((self.x[i] - self.x[j]) ** 2).sum()

    def d(self, i, j):
        return self.d2(i, j).sqrt()

    def positives(self, i):
        return [j for j in self.rows if self.y[j] == self.y[i] and self.ids[j] != self.ids[i]]

    def negatives(self, i):
        return [j for j in self.rows if self.y[j] != self.y[i]]

    def pairs(self, of):
        return [(i, j) for i in self.rows for j in of(i)]

    def triplets(self):
        return [(a, p, n) for a in self.rows for p in self.positives(a) for n in self.negatives(a)]

    def zero(self):
        return self.x.sum() * 0.0


def mean_over(terms, given):
    """Weighted mean of (weight, value) pairs."""
    total = sum(weight for weight, _ in terms)
    return sum((weight * value for weight, value in terms), given.zero()) / total if total else given.zero()


def above_zero(terms):
    return [(weight, value) for weight, value in terms if value.item() > 0]


def relu(value):
    return torch.relu(value)


def informative(g, i, epsilon):
    pos, neg = g.positives(i), g.negatives(i)
    if not pos or not neg:
        return [], []
    least = min(g.s(i, p).item() for p in pos)
    most = max(g.s(i, n).item() for n in neg)
    return (
        [p for p in pos if g.s(i, p).item() < most + epsilon],
        [n for n in neg if g.s(i, n).item() > least - epsilon],
    )


def log_sums(g, i, pos, neg, alpha, beta, rho, w):
    pull = torch.log(1 + sum((w[p] * torch.exp(-alpha * (g.s(i, p) - rho)) for p in pos), g.zero())) / alpha
    push = torch.log(1 + sum((w[n] * torch.exp(beta * (g.s(i, n) - rho)) for n in neg), g.zero())) / beta
    return pull, push


def ms(g, alpha=2, beta=50, rho=0.5, epsilon=0.1):
    terms = []
    for i in g.rows:
        pos, neg = informative(g, i, epsilon)
        terms.append((g.w[i], sum(log_sums(g, i, pos, neg, alpha, beta, rho, g.w))))
    return mean_over(terms, g)


def bspml(g, alpha=2, beta=50, rho=0.5, epsilon=0.1, zero_weight="drop", normalise="batch"):
    loss, size, weight = g.zero(), len(g.rows), 0.0
    average = sum(g.w) / size if size else 0.0
    mean = lambda samples, none: sum(g.w[j] for j in samples) / len(samples) if samples else none
    for i in g.rows:
        pos, neg = informative(g, i, epsilon)
        pull, push = log_sums(g, i, pos, neg, alpha, beta, rho, [1.0] * len(g.w))
        loss = loss + g.w[i] * (mean(pos, 0.0) * pull + mean(neg, 0.0) * push)
        weight += g.w[i] * (mean(pos, average) + mean(neg, average)) / 2
    total = size if normalise == "batch" else weight
    return loss / total if total else loss


def contrastive(g, pos_margin=None, neg_margin=None, distance="cosine"):
    cosine = distance == "cosine"
    pos_margin = (1.0 if cosine else 0.0) if pos_margin is None else pos_margin
    neg_margin = (0.0 if cosine else 1.0) if neg_margin is None else neg_margin
    pull, push = [], []
    for i, j in g.pairs(g.positives):
        pull.append((g.w[i] * g.w[j], relu(pos_margin - g.s(i, j) if cosine else g.d(i, j) - pos_margin)))
    for i, j in g.pairs(g.negatives):
        push.append((g.w[i] * g.w[j], relu(g.s(i, j) - neg_margin if cosine else neg_margin - g.d(i, j))))
    return mean_over(above_zero(pull), g) + mean_over(above_zero(push), g)


def triplet(g, margin=0.0, smooth=True, squared=False, mining="all"):
    d = g.d2 if squared else g.d
    chosen = g.triplets()
    if mining == "hard":
        chosen = []
        for a in g.rows:
            if g.positives(a) and g.negatives(a):
                p = max(g.positives(a), key=lambda j: d(a, j).item())
                chosen.append((a, p, min(g.negatives(a), key=lambda j: d(a, j).item())))
    if mining == "semihard":
        chosen = []
        for a, p in g.pairs(g.positives):
            beyond = [n for n in g.negatives(a) if d(a, n).item() > d(a, p).item()]
            if beyond:
                chosen.append((a, p, min(beyond, key=lambda j: d(a, j).item())))
    terms = []
    for a, p, n in chosen:
        gap = d(a, p) - d(a, n) + margin
        value = torch.log(1 + torch.exp(gap)) if smooth else relu(gap)
        terms.append((g.w[a] * g.w[p] * g.w[n], value))
    return mean_over(terms if smooth else above_zero(terms), g)


def margin(g, margin=0.2, beta=1.2, learn_beta="none", sampling="all", tensor=None):
    terms = []
    for a, p, n in g.triplets():
        b = {"none": lambda: beta, "global": lambda: tensor[0], "class": lambda: tensor[g.y[a]]}[learn_beta]()
        weight = g.w[a] * g.w[p] * g.w[n]
        terms += [(weight, relu(margin + g.d(a, p) - b)), (weight, relu(margin + b - g.d(a, n)))]
    return mean_over(above_zero(terms), g)


def fastap(g, bins=10):
    width = 4 / bins
    terms = []
    for i in g.rows:
        pos, neg = g.positives(i), g.negatives(i)
        if not pos:
            continue
        ap, running_pos, running = g.zero(), g.zero(), g.zero()
        for z in range(bins + 1):
            pulse = lambda j: relu(1 - (g.d2(i, j) - z * width).abs() / width)
            h_pos = sum((g.w[j] * pulse(j) for j in pos), g.zero())
            running_pos = running_pos + h_pos
            running = running + h_pos + sum((g.w[j] * pulse(j) for j in neg), g.zero())
            if running.item() > 0:
                ap = ap + h_pos * running_pos / running
        terms.append((g.w[i], 1 - ap / sum(g.w[j] for j in pos)))
    return mean_over(terms, g)


def rdml(g, eta=1.0, margin=1.0):
    scale = 1 / (1 - np.exp(-eta))
    terms = []
    for a, p, n in g.triplets():
        hinge = relu(margin + g.d2(a, p) - g.d2(a, n))
        if hinge.item() > 0:
            terms.append((g.w[a] * g.w[p] * g.w[n], scale * (1 - torch.exp(-eta * hinge))))
    return mean_over(terms, g)


def proxy_anchor(g, alpha=32, delta=0.1, tensor=None):
    pull, push, present = g.zero(), g.zero(), 0
    for c in range(CLASSES):
        proxy = tensor[c] / (tensor[c] ** 2).sum().sqrt()
        own = [i for i in g.rows if g.y[i] == c]
        others = [i for i in g.rows if g.y[i] != c]
        present += bool(own)
        exp = lambda i, sign, shift: g.w[i] * torch.exp(sign * alpha * ((g.x[i] * proxy).sum() + shift))
        pull = pull + torch.log(1 + sum((exp(i, -1, -delta) for i in own), g.zero()))
        push = push + torch.log(1 + sum((exp(i, 1, delta) for i in others), g.zero()))
    return (pull / present if present else pull) + push / CLASSES


def softmax_loss(g, logits):
    """Weighted mean cross-entropy; `logits` gives those of a sample, one for each class."""
    terms = []
    for i in g.rows:
        of_sample = logits(i)
        total = torch.log(sum(torch.exp(z) for z in of_sample))
        terms.append((g.w[i], total - of_sample[g.y[i]]))
    return mean_over(terms, g)


def cosine_to(g, i, proxy):
    return (g.x[i] * proxy).sum() / (proxy**2).sum().sqrt()


def norm_softmax(g, temperature=0.05, tensor=None):
    return softmax_loss(g, lambda i: [cosine_to(g, i, tensor[c]) / temperature for c in range(CLASSES)])


def arcface(g, margin=28.6, scale=64, sub_centers=1, tensor=None):
    m = np.radians(margin)

    def logits(i):
        all_classes = []
        for c in range(CLASSES):
            cos = max((cosine_to(g, i, proxy) for proxy in tensor[c]), key=lambda s: s.item())
            angle = torch.acos(cos)
            if c == g.y[i]:
                cos = torch.cos(angle + m) if angle.item() <= np.pi - m else cos - m * np.sin(m)
            all_classes.append(scale * cos)
        return all_classes

    return softmax_loss(g, logits)


def soft_triple(g, centers_per_class=10, gamma=0.1, margin=0.01, tensor=None, **more):
    def logits(i):
        all_classes = []
        for c in range(CLASSES):
            cosines = [cosine_to(g, i, proxy) for proxy in tensor[c]]
            share = [torch.exp(s / gamma) for s in cosines]
            similarity = sum(q * s for q, s in zip(share, cosines)) / sum(share)
            all_classes.append(more.get("lambda", 20) * (similarity - margin * (c == g.y[i])))
        return all_classes

    return softmax_loss(g, logits)


def circle(g, margin=0.4, gamma=80):
    terms = []
    for i in g.rows:
        pos, neg = g.positives(i), g.negatives(i)
        if not pos or not neg:
            continue
        pull, push = g.zero(), g.zero()
        for p in pos:
            s = g.s(i, p)
            pull = pull + g.w[p] * torch.exp(-gamma * relu(1 + margin - s.detach()) * (s - 1 + margin))
        for n in neg:
            s = g.s(i, n)
            push = push + g.w[n] * torch.exp(gamma * relu(s.detach() + margin) * (s - margin))
        terms.append((g.w[i], torch.log(1 + pull * push)))
    return mean_over(terms, g)


def snr(g, pos_margin=0.0, neg_margin=1.0, regularizer=0.0):
    d = lambda i, j: torch.var(g.x[j] - g.x[i]) / torch.var(g.x[i])
    pull = [(g.w[i] * g.w[j], relu(d(i, j) - pos_margin)) for i, j in g.pairs(g.positives)]
    push = [(g.w[i] * g.w[j], relu(neg_margin - d(i, j))) for i, j in g.pairs(g.negatives)]
    mean = mean_over([(g.w[i], g.x[i].sum().abs()) for i in g.rows], g)
    return mean_over(above_zero(pull), g) + mean_over(above_zero(push), g) + regularizer * mean


cosine = lambda: distances.DotProductSimilarity(normalize_embeddings=False)
lp = lambda power=1: distances.LpDistance(normalize_embeddings=False, power=power)


def peer(name, settings):
    """The loss of pytorch-metric-learning, its miner, and whether it scales its input."""
    s = settings
    if name == "ms":
        miner = miners.MultiSimilarityMiner(s.get("epsilon", 0.1), distance=cosine())
        loss = losses.MultiSimilarityLoss(s.get("alpha", 2), s.get("beta", 50), s.get("rho", 0.5), distance=cosine())
        return loss, miner, False
    if name == "contrastive":
        if s.get("distance") == "euclidean":
            loss = losses.ContrastiveLoss(s.get("pos_margin", 0), s.get("neg_margin", 1), distance=lp())
        else:
            loss = losses.ContrastiveLoss(s.get("pos_margin", 1), s.get("neg_margin", 0), distance=cosine())
        return loss, None, False
    if name == "triplet":
        distance = lp(2 if s.get("squared") else 1)
        smooth = s.get("smooth", True)
        return losses.TripletMarginLoss(s.get("margin", 0), smooth_loss=smooth, distance=distance), None, False
    if name == "margin":
        per_class = s.get("learn_beta") == "class"
        loss = losses.MarginLoss(
            s.get("margin", 0.2),
            beta=s.get("beta", 1.2),
            learn_beta=s.get("learn_beta", "none") != "none",
            num_classes=CLASSES if per_class else None,
            distance=lp(),
        )
        return loss, None, False
    if name == "fastap":
        return losses.FastAPLoss(s.get("bins", 10)), None, True
    if name == "proxy_anchor":
        return losses.ProxyAnchorLoss(CLASSES, DIM, s.get("delta", 0.1), s.get("alpha", 32)), None, True
    if name == "norm_softmax":
        return losses.NormalizedSoftmaxLoss(CLASSES, DIM, s.get("temperature", 0.05)), None, True
    if name == "arcface":
        shape = {"num_classes": CLASSES, "embedding_size": DIM}
        more = {"margin": s.get("margin", 28.6), "scale": s.get("scale", 64)}
        if s.get("sub_centers", 1) > 1:
            return losses.SubCenterArcFaceLoss(**shape, **more, sub_centers=s["sub_centers"]), None, True
        return losses.ArcFaceLoss(**shape, **more), None, True
    if name == "soft_triple":
        centers = s.get("centers_per_class", 10)
        more = {"la": s.get("lambda", 20), "gamma": s.get("gamma", 0.1), "margin": s.get("margin", 0.01)}
        return losses.SoftTripleLoss(CLASSES, DIM, centers, **more), None, True
    if name == "circle":
        return losses.CircleLoss(s.get("margin", 0.4), s.get("gamma", 80)), None, True
    if name == "snr":
        distance = distances.SNRDistance(normalize_embeddings=False)
        margins = {"pos_margin": s.get("pos_margin", 0), "neg_margin": s.get("neg_margin", 1)}
        return losses.SignalToNoiseRatioContrastiveLoss(**margins, distance=distance), None, False
    raise ValueError(name)


def declared(name, settings):
    """Name and value of the loss's tensor, if it has one."""
    if name in ("proxy_anchor", "norm_softmax"):
        return "proxies", PROXIES
    if name in ("arcface", "soft_triple"):
        return "proxies", CENTERS[:, : settings.get("sub_centers", settings.get("centers_per_class", 1))]
    if name == "margin" and settings.get("learn_beta", "none") != "none":
        return "beta", BETAS[:1] if settings["learn_beta"] == "global" else BETAS
    return None, None


SETTINGS = {
    "ms": [{}, {"rho": 1.0}, {"alpha": 3.0, "beta": 20.0, "epsilon": 0.0}],
    "contrastive": [{}, {"pos_margin": 0.8, "neg_margin": 0.3}, {"distance": "euclidean"}],
    "triplet": [{}, {"margin": 0.3, "squared": True}, {"smooth": False, "margin": 0.2}],
    "margin": [{}, {"learn_beta": "global", "margin": 0.1}, {"learn_beta": "class"}],
    "fastap": [{}, {"bins": 4}],
    "proxy_anchor": [{}, {"alpha": 8.0, "delta": 0.3}],
    "snr": [{}, {"pos_margin": 0.2, "neg_margin": 1.5}],
    "norm_softmax": [{}, {"temperature": 0.5}],
    "arcface": [{}, {"margin": 100.0, "scale": 8.0}, {"sub_centers": 3, "scale": 16.0}],
    "soft_triple": [{"centers_per_class": 3}, {"centers_per_class": 2, "lambda": 5.0, "gamma": 0.5, "margin": 0.2}],
    "circle": [{}, {"margin": 0.25, "gamma": 10.0}],
}
ONLY_LOOPS = {
    "triplet": [{"mining": "hard"}, {"mining": "semihard"}, {"mining": "semihard", "smooth": False, "margin": 0.2}],
    "rdml": [{}, {"eta": 3.0}, {"eta": 0.5, "margin": 0.4}],
    "bspml": [{}, {"zero_weight": "keep"}, {"rho": 1.0, "zero_weight": "keep"}, {"normalise": "weights", "zero_weight": "keep"},
              {"normalise": "weights"}],
    "snr": [{"regularizer": 0.5}],
}
FORMULAS = {f.__name__: f for f in (ms, bspml, contrastive, triplet, margin, fastap, rdml, proxy_anchor, snr,
                                    norm_softmax, arcface, soft_triple, circle)}

cases, tensors = [], {}
for name, data in BATCHES.items():
    for key, value in data.items():
        tensors[f"batch.{name}.{key}"] = value


def record(source, name, settings, batch_name, weighted, tangent, loss, x, tensor_name, tensor, before=None):
    loss.backward()
    key = f"case.{len(cases)}"
    tensors[f"{key}.loss"] = np.array(loss.item())
    tensors[f"{key}.grad"] = (x.grad if x.grad is not None else torch.zeros_like(x)).numpy()
    if tensor_name:
        tensors[f"{key}.{tensor_name}"] = tensor.detach().numpy().copy()
        grad = tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
        tensors[f"{key}.grad.{tensor_name}"] = grad.numpy()
    if name == "margin":
        settings = {**settings, "sampling": "all"}
    case = {"loss": name, "settings": settings, "batch": batch_name, "source": source, "weighted": weighted}
    cases.append({**case, "tangent": tangent, "tensor": tensor_name, "before": before})


for name, variants in SETTINGS.items():
    for settings in variants:
        for batch_name in ("pk", "uneven"):
            loss, miner, tangent = peer(name, settings)
            tensor_name, value = declared(name, settings)
            if tensor_name:
                parameter = torch.nn.Parameter(torch.tensor(value))
                for classifier in {"W", "fc"} & set(dict(loss.named_parameters())):
                    # Classes are columns there. What is assigned is not a parameter, but depends on one.
                    delattr(loss, classifier)
                    setattr(loss, classifier, parameter.reshape(-1, DIM).t())
                    break
                else:
                    setattr(loss, tensor_name, parameter)
            x = torch.tensor(BATCHES[batch_name]["embeddings"], requires_grad=True)
            y = torch.tensor(BATCHES[batch_name]["labels"])
            value = loss(x, y, miner(x, y) if miner else None)
            record("pml", name, settings, batch_name, False, tangent, value, x, tensor_name,
                   parameter if tensor_name else None)

for group in (SETTINGS, ONLY_LOOPS):
    for name, variants in group.items():
        for settings in variants:
            combinations = [("uneven", True), ("repeats", False), ("repeats", True)]
            if group is ONLY_LOOPS:
                combinations.append(("pk", False))
            if not settings:
                combinations += [("one_class", False), ("singletons", True)]
            for batch_name, weighted in combinations:
                keep = name == "bspml" and settings.get("zero_weight") == "keep"
                given = Given(BATCHES[batch_name], weighted, keep)
                tensor_name, value = declared(name, settings)
                more, parameter = {}, None
                if tensor_name:
                    parameter = torch.tensor(value, requires_grad=True)
                    more = {"tensor": parameter}
                loss = FORMULAS[name](given, **settings, **more)
                record("loops", name, settings, batch_name, weighted, False, loss, given.x, tensor_name, parameter)

# The memory there also holds the batch itself, so it is larger by one batch. Its copy is without gradient; the
# gradient recorded here is that of the same loss with the batch in place of that copy.
for name in ("ms", "contrastive", "circle"):
    for steps in (2, 4):
        loss, miner, tangent = peer(name, {})
        memory = losses.CrossBatchMemory(loss, DIM, memory_size=36, miner=miner)
        before = [f"step_{step}" for step in range(steps)]
        for step in before[:-1]:
            memory(torch.tensor(BATCHES[step]["embeddings"]), torch.tensor(BATCHES[step]["labels"]))
        x = torch.tensor(BATCHES[before[-1]]["embeddings"], requires_grad=True)
        y = torch.tensor(BATCHES[before[-1]]["labels"])
        expected = memory(x, y)
        filled = memory.memory_size if memory.has_been_filled else memory.queue_idx
        others = memory.embedding_memory.clone().index_copy(0, memory.curr_batch_idx, x)[:filled]
        labels = memory.label_memory[:filled]
        pairs = miner(x, y, others, labels) if miner else lmu.get_all_pairs_indices(y, labels)
        pairs = lmu.remove_self_comparisons(pairs, memory.curr_batch_idx, memory.memory_size)
        value = loss(x, y, pairs, others, labels)
        assert abs(value.item() - expected.item()) < 1e-12
        settings = {"memory": {"size": 24}}
        record("pml", name, settings, before[-1], False, tangent, value, x, None, None, before[:-1])

path = pathlib.Path(__file__).with_name("losses.safetensors")
save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, path, {"cases": json.dumps(cases)})
print(f"{len(cases)} cases, {path.stat().st_size} bytes")
