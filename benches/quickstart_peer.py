"""The PyTorch side of `cargo bench -p curricle --bench quickstart`: the same training and evaluation, start to finish.

Arguments: RECIPE DATA FOLDER plain|tuned. RECIPE is the resolved recipe as JSON, so that both sides train the same
network; DATA is an .npz file with `train_images`, `train_labels`, `test_images` and `test_labels`; TensorBoard files
and checkpoints go to FOLDER. The last line of the output is the final Recall@1. `tuned` adds channels last and the
fused optimiser. Needs torch, pytorch-metric-learning, faiss-cpu, scikit-learn and tensorboard.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import losses, miners, samplers
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import FaissKNN
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


class Conv4(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        blocks = [self.block(1 if i == 0 else width, width) for i in range(4)]
        self.layers = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(4 * width, size))

    @staticmethod
    def block(channels, width):
        conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2))

    def forward(self, images):
        return nn.functional.normalize(self.layers(images))


def dataset(images, labels):
    """Pixels from 0 to 1, then normalised."""
    return TensorDataset((torch.from_numpy(images).float() / 255 - 0.5) / 0.5, torch.from_numpy(labels))


@torch.inference_mode()
def evaluate(model, loader, memory_format, recall_at, cluster):
    model.eval()
    embeddings = torch.cat([model(images.contiguous(memory_format=memory_format)) for images, _ in loader])
    labels = loader.dataset.tensors[1]
    model.train()
    wanted = ["r_precision", "mean_average_precision_at_r"] + (["NMI", "AMI"] if cluster else [])
    metrics = AccuracyCalculator(include=wanted, k="max_bin_count").get_accuracy(embeddings, labels)
    # The nearest neighbour of each sample is the sample itself.
    _, found = FaissKNN()(embeddings, max(recall_at) + 1, embeddings, ref_includes_query=True)
    correct = labels[found] == labels.unsqueeze(1)
    recalls = {f"recall@{k}": correct[:, :k].any(1).float().mean().item() for k in recall_at}
    return {**metrics, **recalls}


def main(recipe, data, folder, how):
    recipe = json.loads(recipe.read_text())
    per_class, epochs = recipe["sampler"]["per_class"], recipe["train"]["epochs"]
    batch_size, recall_at = recipe["sampler"]["classes"] * per_class, recipe["eval"]["recall_at"]
    torch.manual_seed(0)
    np.random.seed(0)
    tuned = how == "tuned"
    memory_format = torch.channels_last if tuned else torch.contiguous_format
    data = np.load(data)
    train = dataset(data["train_images"], data["train_labels"])
    test = dataset(data["test_images"], data["test_labels"])
    length = len(train)
    sampler = samplers.MPerClassSampler(data["train_labels"], per_class, batch_size, length_before_new_iter=length)
    train_loader = DataLoader(train, batch_size, sampler=sampler, drop_last=True)
    test_loader = DataLoader(test, batch_size=256)

    model = Conv4(recipe["backbone"]["width"], recipe["embedding"]["size"]).to(memory_format=memory_format)
    optimizer = torch.optim.Adam(model.parameters(), recipe["optimizer"]["lr"], fused=True if tuned else None)
    settings = recipe["loss"]
    miner = miners.MultiSimilarityMiner(settings["epsilon"])
    loss_of = losses.MultiSimilarityLoss(settings["alpha"], settings["beta"], settings["rho"])
    writer, step = SummaryWriter(folder), 0

    def log(metrics):
        for name, value in metrics.items():
            writer.add_scalar(f"eval/{name}", value, step)

    log(evaluate(model, test_loader, memory_format, recall_at, cluster=True))
    for epoch in range(1, epochs + 1):
        for images, labels in train_loader:
            embeddings = model(images.contiguous(memory_format=memory_format))
            loss = loss_of(embeddings, labels, miner(embeddings, labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % recipe["train"]["log_every"] == 0:
                writer.add_scalar("train/loss", loss.item(), step)
        if epoch % recipe["eval"]["every"] == 0 or epoch == epochs:
            metrics = evaluate(model, test_loader, memory_format, recall_at, cluster=epoch == epochs)
            log(metrics)
        checkpoint = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(checkpoint, folder / "checkpoint.pt")
    writer.close()
    print(metrics["recall@1"])


main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4])
