"""Writes examples.safetensors: losses and gradients in f64 of the example plugins, by pytorch-metric-learning.

    python3 -m pip install torch==2.13.0 pytorch-metric-learning==2.9.0 numpy safetensors
    python3 tests/golden/examples.py

`soft_triple.*`: SoftTripleLoss with three centres per class. `memory.*`: the second batch of a CrossBatchMemory of 12
rows around ContrastiveLoss on cosine similarities, so that the memory wraps around. Embeddings are normalised by the
reference too, so only the part of a gradient across each embedding can be compared.
"""

import pathlib

import numpy as np
import torch
from pytorch_metric_learning import distances, losses
from safetensors.numpy import save_file

torch.set_default_dtype(torch.float64)
torch.manual_seed(3)
CLASSES, CENTERS, DIM, BATCH, MEMORY = 4, 3, 5, 8, 12


def unit(rows):
    # Rounded to f32, in which curricle keeps its memory.
    x = torch.nn.functional.normalize(torch.randn(rows, DIM)).float()
    return x.double()


def evaluate(loss, x, labels):
    x = x.clone().requires_grad_()
    value = loss(x, labels)
    value.backward()
    return value.item(), x.grad


out = {}
labels = torch.arange(BATCH) % CLASSES
x = unit(BATCH)

soft = losses.SoftTripleLoss(CLASSES, DIM, centers_per_class=CENTERS)
with torch.no_grad():
    soft.fc.copy_(torch.randn(DIM, CLASSES * CENTERS))
value, grad = evaluate(soft, x, labels)
out["soft_triple.centers"] = soft.fc.detach().t().reshape(CLASSES, CENTERS, DIM)
out["soft_triple.grad.centers"] = soft.fc.grad.t().reshape(CLASSES, CENTERS, DIM)
out |= {"soft_triple.embeddings": x, "soft_triple.labels": labels}
out |= {"soft_triple.loss": torch.tensor(value), "soft_triple.grad": grad}

inner = losses.ContrastiveLoss(pos_margin=1, neg_margin=0.5, distance=distances.CosineSimilarity())
memory = losses.CrossBatchMemory(inner, DIM, memory_size=MEMORY)
first = unit(BATCH)
memory(first, labels)
out["memory.memory"] = memory.embedding_memory.clone()
empty = torch.arange(MEMORY) >= BATCH
out["memory.memory_labels"] = memory.label_memory.masked_fill(empty, -1)
value, grad = evaluate(memory, x, labels.flip(0))
out |= {"memory.embeddings": x, "memory.labels": labels.flip(0)}
out |= {"memory.loss": torch.tensor(value), "memory.grad": grad}

path = pathlib.Path(__file__).with_suffix(".safetensors")
save_file({name: np.ascontiguousarray(tensor.numpy()) for name, tensor in out.items()}, path)
