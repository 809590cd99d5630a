"""The measurement of `losses.rs` for pytorch-metric-learning: same batch, same settings, same form.

    python3 -m pip install torch==2.13.0 pytorch-metric-learning==2.9.0
    cargo bench -p curricle-losses --bench losses -- --peer python3
"""

import json
import statistics
import sys
import time

import torch
from pytorch_metric_learning import distances, losses, miners

CLASSES, DIMENSIONS, WARM_UP, STEPS = 100, 512, 20, 100


def measure(loss, miner, embeddings, labels):
    times = []
    for _ in range(WARM_UP + STEPS):
        embeddings.grad = None
        start = time.perf_counter()
        mined = miner(embeddings, labels) if miner else None
        loss(embeddings, labels, mined).backward()
        times.append(time.perf_counter() - start)
    times = times[WARM_UP:]
    return {"median_ms": statistics.median(times) * 1e3, "min_ms": min(times) * 1e3}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(int(sys.argv[1]))
    labels = torch.arange(64) // 4
    embeddings = torch.nn.functional.normalize(torch.randn(64, DIMENSIONS)).requires_grad_(True)
    cosine = distances.CosineSimilarity()
    peers = {
        "ms": (losses.MultiSimilarityLoss(2, 50, 0.5), miners.MultiSimilarityMiner(0.1)),
        "contrastive": (losses.ContrastiveLoss(1, 0, distance=cosine), None),
        "triplet": (losses.TripletMarginLoss(0.0, smooth_loss=True), None),
        "margin": (losses.MarginLoss(0.2, beta=1.2), miners.DistanceWeightedMiner(0.5, 1.4)),
        "fastap": (losses.FastAPLoss(10), None),
        "proxy_anchor": (losses.ProxyAnchorLoss(CLASSES, DIMENSIONS, 0.1, 32), None),
        "circle": (losses.CircleLoss(), None),
        "norm_softmax": (losses.NormalizedSoftmaxLoss(CLASSES, DIMENSIONS), None),
        "arcface": (losses.ArcFaceLoss(CLASSES, DIMENSIONS), None),
        "soft_triple": (losses.SoftTripleLoss(CLASSES, DIMENSIONS), None),
        "snr": (losses.SignalToNoiseRatioContrastiveLoss(pos_margin=0, neg_margin=1), None),
    }
    for name, (loss, miner) in peers.items():
        print(json.dumps({"name": name, **measure(loss, miner, embeddings, labels)}))


main()
