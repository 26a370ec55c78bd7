"""Networks for images [B, ...] of uint8: Mnih et al. 2015 (Nature), a smaller one, and IMPALA's (arXiv:1802.01561)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from steadyrl.nn.encoding import IMPALA_CHANNELS, NATURE, OUTPUTS, SMALL, conv_sizes, impala_sizes
from steadyrl.nn.init import BlankConv, BlankLinear
from steadyrl.spaces import Leaf
from steadyrl.spaces.images import image_of


class Pixels(nn.Module):
    """A stored image as float32 [B, C, H, W], times the leaf's scale; the channels of all frames side by side."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.layout, self.scale = leaf.layout, leaf.scale

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W]."""
        if self.layout == "hw":
            obs = obs.unsqueeze(1)
        elif self.layout == "hwc":
            obs = obs.permute(0, 3, 1, 2)
        elif self.layout == "shwc":
            obs = obs.permute(0, 1, 4, 2, 3).flatten(1, 2)
        elif self.layout == "schw":
            obs = obs.flatten(1, 2)
        return obs.to(torch.float32) * self.scale


class PlainCnn(nn.Module):
    """Three convolutions and a linear layer, each with ReLU: the Nature DQN network, or the smaller one."""

    def __init__(self, leaf: Leaf, *, small: bool) -> None:
        super().__init__()
        image, convs = image_of(leaf.shape, leaf.layout), SMALL if small else NATURE
        layers: list[nn.Module] = []
        channels = image.channels
        for conv in convs:
            layers += [BlankConv(channels, conv.channels, conv.kernel, conv.stride, conv.padding), nn.ReLU()]
            channels = conv.channels
        self.features = OUTPUTS["small" if small else "nature"]
        self.pixels = Pixels(leaf)
        self.layers = nn.Sequential(
            *layers, nn.Flatten(), BlankLinear(channels * math.prod(conv_sizes(image, convs)), self.features), nn.ReLU()
        )

    def forward(self, obs: Tensor) -> Tensor:
        """[B, features]."""
        features: Tensor = self.layers(self.pixels(obs))
        return features


class _Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(), BlankConv(channels, channels, 3, 1, 1), nn.ReLU(), BlankConv(channels, channels, 3, 1, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.layers(x)
        return found


class ImpalaCnn(nn.Module):
    """IMPALA's deep network without its LSTM (arXiv:1802.01561, figure 3): three blocks of a convolution, a maximum
    over 3 x 3 pixels with stride 2, and two residual units; then a linear layer.
    """

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        image = image_of(leaf.shape, leaf.layout)
        blocks: list[nn.Module] = []
        channels = image.channels
        for out in IMPALA_CHANNELS:
            blocks += [BlankConv(channels, out, 3, 1, 1), nn.MaxPool2d(3, 2, 1), _Residual(out), _Residual(out)]
            channels = out
        self.features = OUTPUTS["impala"]
        self.pixels = Pixels(leaf)
        self.layers = nn.Sequential(
            *blocks,
            nn.ReLU(),
            nn.Flatten(),
            BlankLinear(channels * math.prod(impala_sizes(image)), self.features),
            nn.ReLU(),
        )

    def forward(self, obs: Tensor) -> Tensor:
        """[B, features]."""
        features: Tensor = self.layers(self.pixels(obs))
        return features
