#!/usr/bin/env python3
"""Features of small vision transformers as timm, torchvision and open_clip compute them.

Needs torch, timm, torchvision, open_clip_torch, numpy and safetensors; run it as `python tests/golden/vit.py`. It
writes vit.safetensors next to itself, for the tests of core/engine/src/backbone/vit: for each layout of weights
the features of two images, and in the metadata the names and shapes of all tensors in the file, as its publisher
writes them. Weights and images follow the rule in backbones.py, so that no weights have to be stored. Everything
is computed in f64, except timm's interpolation of position embeddings, which is always f32.

All networks have patches of 8 pixels, width 32, two blocks and two heads. Position embeddings are those of a
4 × 4 grid where the library can interpolate them (timm), in one case of a 16 × 16 grid, and those of the image
where it cannot.
"""

import json
from pathlib import Path

import numpy as np
import open_clip
import timm
import torch
import torchvision
from backbones import numbers, values
from safetensors.numpy import save_file
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer

SIZE = dict(patch_size=8, embed_dim=32, depth=2, num_heads=2, dynamic_img_size=True)
MEANS = {
    "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "symmetric": ([0.5] * 3, [0.5] * 3),
    "clip": ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]),
}


def images(normalise, width):
    shape = (2, 3, 64, 96)
    pixels = (numbers("pictures", int(np.prod(shape))) * 256).astype(np.uint8).reshape(shape)[..., :width]
    mean, std = (np.array(numbers).reshape(1, 3, 1, 1) for numbers in MEANS[normalise])
    return torch.tensor((pixels / 255.0 - mean) / std)


def filled(names):
    """Tensors of a file with these names and shapes."""
    return {name: torch.tensor(values(name, tuple(shape)), dtype=torch.float64) for name, shape in names.items()}


def shapes(state):
    return {name: list(tensor.shape) for name, tensor in state.items()}


def load(net, state):
    net.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return net.double().eval()


def timm_features(net, normalise, pooling="token"):
    x = net.forward_features(images(normalise, 96))
    return net.pool(x, pooling)


def layouts():
    """Name of the layout, names and shapes in the file, and its features."""
    net = VisionTransformer(32, num_classes=5, **SIZE)
    names = shapes(net.state_dict())
    load(net, filled(names))
    yield "timm", names, timm_features(net, "symmetric")
    yield "timm.mean", names, timm_features(net, "symmetric", "avg")

    # Position embeddings of more patches than the images have.
    net = VisionTransformer(128, num_classes=0, **SIZE)
    names = shapes(net.state_dict())
    load(net, filled(names))
    yield "timm_large", names, timm_features(net, "imagenet")

    # DINO: a teacher without a classifier, next to its student.
    net = VisionTransformer(32, num_classes=0, **SIZE)
    own = shapes(net.state_dict())
    names = {f"{who}.backbone.{name}": shape for who in ["teacher", "student.module"] for name, shape in own.items()}
    names["teacher.head.mlp.0.weight"] = [4, 32]
    state = filled(names)
    load(net, {name: state[f"teacher.backbone.{name}"] for name in own})
    yield "dino", names, timm_features(net, "imagenet")

    # DINOv2: LayerScale and a mask token; with registers, timm merges the class token's position into the token.
    for registers, name in [(0, "dinov2"), (4, "dinov2_reg4")]:
        more = dict(init_values=1e-5, reg_tokens=registers, no_embed_class=registers > 0)
        net = VisionTransformer(32, num_classes=0, **SIZE, **more)
        own = shapes(net.state_dict())
        names = {key.replace("reg_token", "register_tokens"): shape for key, shape in own.items()}
        names["mask_token"] = [1, 32]
        names["pos_embed"] = [1, 17, 32]
        state = filled(names)
        converted = {key: state[key.replace("reg_token", "register_tokens")] for key in own}
        if registers:
            converted["cls_token"] = state["cls_token"] + state["pos_embed"][:, :1]
            converted["pos_embed"] = state["pos_embed"][:, 1:]
        load(net, converted)
        yield name, names, timm_features(net, "imagenet")
        yield f"{name}.mean", names, timm_features(net, "imagenet", "avg")
    # The same as timm stores it.
    load(net, filled(own))
    yield "timm_reg4", own, timm_features(net, "imagenet")

    # DeiT, distilled: features are the mean of both tokens, as before timm's classifiers.
    net = VisionTransformerDistilled(32, num_classes=5, **SIZE)
    own = shapes(net.state_dict())
    names = {f"model.{name}": shape for name, shape in own.items()}
    state = filled(names)
    load(net, {name: state[f"model.{name}"] for name in own})
    x = net.forward_features(images("imagenet", 96))
    yield "deit_distilled", names, (x[:, 0] + x[:, 1]) / 2

    # DeiT III: LayerScale under another name, no position for the class token.
    net = VisionTransformer(32, num_classes=5, no_embed_class=True, init_values=1e-6, **SIZE)
    rename = lambda name: name.replace("ls1.gamma", "gamma_1").replace("ls2.gamma", "gamma_2")
    own = shapes(net.state_dict())
    names = {f"model.{rename(name)}": shape for name, shape in own.items()}
    state = filled(names)
    load(net, {name: state[f"model.{rename(name)}"] for name in own})
    yield "deit3", names, timm_features(net, "imagenet")

    net = torchvision.models.VisionTransformer(64, 8, 2, 2, 32, 128, num_classes=5)
    own = shapes(net.state_dict())
    old = lambda name: name.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2.")
    for layout, rename in [("torchvision", lambda name: name), ("torchvision_old", old)]:
        names = {rename(name): shape for name, shape in own.items()}
        state = filled(names)
        load(net, {name: state[rename(name)] for name in own})
        x = net._process_input(images("imagenet", 64))
        x = torch.cat([net.class_token.expand(len(x), -1, -1), x], 1)
        yield layout, names, net.encoder(x)[:, 0]

    # CLIP: with a text tower of the same names, and in OpenAI's files three numbers.
    for layout, activation in [("open_clip", torch.nn.GELU), ("openai_clip", open_clip.transformer.QuickGELU)]:
        net = open_clip.transformer.VisionTransformer(64, 8, 32, 2, 2, 4.0, output_dim=24, act_layer=activation)
        own = shapes(net.state_dict())
        names = {f"visual.{name}": shape for name, shape in own.items()}
        names |= {"transformer.resblocks.0.ln_1.weight": [16], "positional_embedding": [77, 16], "logit_scale": []}
        if layout == "openai_clip":
            names |= {"input_resolution": [], "context_length": [], "vocab_size": []}
        state = filled(names)
        load(net, {name: state[f"visual.{name}"] for name in own})
        yield layout, names, net(images("clip", 64))
        net.proj = None
        yield f"{layout}.unprojected", names, net(images("clip", 64))


def main():
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    tensors, metadata = {}, {}
    for layout, names, features in layouts():
        tensors[layout] = features.float().numpy()
        metadata[layout] = json.dumps(names)
        print(f"{layout}: {len(names)} tensors, features of size {features.std():.4f}")
    versions = [f"{module.__name__} {module.__version__}" for module in (torch, timm, torchvision, open_clip)]
    metadata["made with"] = ", ".join(versions)
    save_file(tensors, Path(__file__).with_suffix(".safetensors"), metadata)


if __name__ == "__main__":
    main()
