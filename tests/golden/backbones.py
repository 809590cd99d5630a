#!/usr/bin/env python3
"""Features of the networks as torchvision computes them, for the tests of core/engine/src/backbone.

Needs torch, torchvision, numpy and safetensors; run it as `python tests/golden/backbones.py`. It
writes backbones.safetensors next to itself: for each network the features of two images of 64 × 96
pixels under both kinds of pooling, and in the metadata a hash of the names and shapes of its
parameters, so that the test also finds a name that differs from the original. It also writes small
files of weights into pth/.

Weights and images follow a rule that both languages can follow (see `numbers`), so that no weights
have to be stored. Everything is computed in f64. BN-Inception is not in torchvision: it is implemented here a
second time, from the published layers, independently of the Rust code.
"""

import argparse
import collections
import hashlib
from pathlib import Path

import numpy as np
import torch
import torchvision
from safetensors.numpy import save_file
from torch import nn


def numbers(name: str, count: int) -> np.ndarray:
    """Numbers in [0, 1) that depend on a name and an index alone."""
    state = 2166136261
    for byte in name.encode():
        state = ((state ^ byte) * 16777619) & 0xFFFFFFFF
    x = (np.uint64(state) + np.arange(count, dtype=np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x85EBCA6B)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(13)
    x = (x * np.uint64(0xC2B2AE35)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return (x >> np.uint64(8)).astype(np.float64) / 2**24


def values(name: str, shape: tuple) -> np.ndarray:
    """Weights that keep the signal at about the same size from layer to layer."""
    u = numbers(name, int(np.prod(shape)))
    if len(shape) >= 2:
        bound = np.sqrt(6.0 / np.prod(shape[1:]))
        u = (2 * u - 1) * bound
    elif name.endswith(("running_var", "weight")):
        u = 0.5 + u
    else:
        u = 0.2 * (u - 0.5)
    return u.astype(np.float32).reshape(shape)


class BNInception(nn.Module):
    """The network of pretrainedmodels: Caffe's pooling, a bias beside every batch norm."""

    def __init__(self):
        super().__init__()
        self.layer("conv1_7x7_s2", 3, 64, 7, stride=2)
        self.layer("conv2_3x3_reduce", 64, 64, 1)
        self.layer("conv2_3x3", 64, 192, 3)
        # name, input, 1x1, 3x3 (reduced, output), double 3x3 (reduced, middle, output), projection
        self.modules_table = [
            ("3a", 192, 64, (64, 64), (64, 96, 96), 32),
            ("3b", 256, 64, (64, 96), (64, 96, 96), 64),
            ("3c", 320, None, (128, 160), (64, 96, 96), None),
            ("4a", 576, 224, (64, 96), (96, 128, 128), 128),
            ("4b", 576, 192, (96, 128), (96, 128, 128), 128),
            ("4c", 576, 160, (128, 160), (128, 160, 160), 128),
            ("4d", 608, 96, (128, 192), (160, 192, 192), 128),
            ("4e", 608, None, (128, 192), (192, 256, 256), None),
            ("5a", 1056, 352, (192, 320), (160, 224, 224), 128),
            ("5b", 1024, 352, (192, 320), (192, 224, 224), 128),
        ]
        for name, size, one, three, double, projection in self.modules_table:
            stride = 2 if projection is None else 1
            if one:
                self.layer(f"inception_{name}_1x1", size, one, 1)
            self.layer(f"inception_{name}_3x3_reduce", size, three[0], 1)
            self.layer(f"inception_{name}_3x3", three[0], three[1], 3, stride=stride)
            self.layer(f"inception_{name}_double_3x3_reduce", size, double[0], 1)
            self.layer(f"inception_{name}_double_3x3_1", double[0], double[1], 3)
            self.layer(f"inception_{name}_double_3x3_2", double[1], double[2], 3, stride=stride)
            if projection:
                self.layer(f"inception_{name}_pool_proj", size, projection, 1)

    def layer(self, name, size, output, kernel, stride=1):
        self.add_module(name, nn.Conv2d(size, output, kernel, stride, padding=kernel // 2))
        self.add_module(name + "_bn", nn.BatchNorm2d(output))

    def step(self, name, x):
        return torch.relu(getattr(self, name + "_bn")(getattr(self, name)(x)))

    def forward(self, x):
        halve = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        x = halve(self.step("conv1_7x7_s2", x))
        x = halve(self.step("conv2_3x3", self.step("conv2_3x3_reduce", x)))
        for name, _, one, _, _, projection in self.modules_table:
            at = lambda layer, y: self.step(f"inception_{name}_{layer}", y)
            parts = [at("1x1", x)] if one else []
            parts.append(at("3x3", at("3x3_reduce", x)))
            parts.append(at("double_3x3_2", at("double_3x3_1", at("double_3x3_reduce", x))))
            if projection is None:
                parts.append(halve(x))
            elif name == "5b":
                parts.append(at("pool_proj", nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True)(x)))
            else:
                pool = nn.AvgPool2d(3, stride=1, padding=1, ceil_mode=True, count_include_pad=True)
                parts.append(at("pool_proj", pool(x)))
            x = torch.cat(parts, 1)
        return x


def resnet_map(net, x):
    x = net.maxpool(net.relu(net.bn1(net.conv1(x))))
    return net.layer4(net.layer3(net.layer2(net.layer1(x))))


def networks():
    models = torchvision.models
    for name in ["resnet18", "resnet34", "resnet50"]:
        net = getattr(models, name)()
        yield name, net, lambda x, net=net: resnet_map(net, x)
    for name in ["mobilenet_v2", "efficientnet_b0", "squeezenet1_1"]:
        net = getattr(models, name)()
        yield name, net, net.features
    net = BNInception()
    yield "bn_inception", net, net


def files():
    """Small files as PyTorch writes them now and wrote them before 1.6, and a whole model."""
    folder = Path(__file__).with_name("pth")
    folder.mkdir(exist_ok=True)
    state = {
        "features.0.weight": torch.arange(6.0).reshape(3, 2).T,  # not contiguous
        "features.0.bias": torch.tensor([9.0, 0.5, -1.5], dtype=torch.float16)[1:],  # begins later
        "features.0.num_batches_tracked": torch.tensor(7),
        "classifier.weight": torch.ones(2, dtype=torch.float64),
    }
    parallel = {f"module.{name}": tensor for name, tensor in state.items()}
    namespace = argparse.Namespace(lr=0.1)
    optimizer = {"state": {0: {"exp_avg": torch.zeros(2)}}}
    checkpoint = {"epoch": 3, "args": namespace, "state_dict": parallel, "optimizer": optimizer}
    torch.save(checkpoint, folder / "new.pth")
    torch.save(collections.OrderedDict(state), folder / "old.pth", _use_new_zipfile_serialization=False)
    torch.save(nn.Linear(2, 2), folder / "whole_model.pth")


def main():
    files()
    torch.set_grad_enabled(False)
    shape = (2, 3, 64, 96)
    images = (numbers("pictures", int(np.prod(shape))) * 256).astype(np.uint8).reshape(shape)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    x = (images / 255.0 - mean.reshape(1, 3, 1, 1)) / std.reshape(1, 3, 1, 1)
    x = torch.tensor(x)
    tensors, metadata = {}, {}
    for name, net, features in networks():
        net.eval()
        state = {
            key: torch.tensor(values(key, tuple(tensor.shape)))
            for key, tensor in net.state_dict().items()
            if not key.endswith("num_batches_tracked")
        }
        net.load_state_dict(state, strict=False)
        net.double()
        last = features(x)
        average = last.mean((2, 3))
        tensors[f"{name}.average"] = average.float().numpy()
        tensors[f"{name}.average_max"] = (average + last.amax((2, 3))).float().numpy()
        kept = [key for key in state if not key.startswith(("fc.", "classifier."))]
        lines = "".join(f"{key} {list(state[key].shape)}\n" for key in sorted(kept))
        metadata[name] = hashlib.sha256(lines.encode()).hexdigest()
        print(f"{name}: {len(kept)} tensors, features of size {average.std():.4f}")
    metadata["made with"] = f"torch {torch.__version__}, torchvision {torchvision.__version__}"
    save_file(tensors, Path(__file__).with_suffix(".safetensors"), metadata)


if __name__ == "__main__":
    main()
