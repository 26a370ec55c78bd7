"""A good bundle, its parts, and bundles made of other parts."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from gymnasium import spaces as gs

import steadyrl.bundle as module
from steadyrl.bundle import Bundle, read_bundle, to_bytes
from steadyrl.errors import UserError
from support.policies import CPU, make_policy

ABOUT: dict[str, Any] = {"algo": "ppo", "config": {}, "env": "X-v0", "seed": 3, "num_timesteps": 7}
POLICY = make_policy(gs.Box(-1, 1, (2,)), gs.Discrete(2), net_arch=(3,), normalize_obs=True)
GOOD = to_bytes(Bundle(POLICY, ABOUT))


def members() -> tuple[dict[str, Any], bytes]:
    """The parts of the good bundle: its description and its weights."""
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        return json.loads(archive.read("bundle.json")), archive.read("weights.safetensors")


def packed(header: dict[str, Any] | bytes, weights: bytes | None = None) -> bytes:
    """A bundle whose container and checksum are right, whatever its parts say."""
    weights = members()[1] if weights is None else weights
    if isinstance(header, dict):
        sums = {"weights_size": len(weights), "weights_sha256": hashlib.sha256(weights).hexdigest()}
        header = json.dumps(header | sums).encode()
    before, between, after = module._frames(header, weights)
    return before + header + between + weights + after


def why_refused(data: bytes, folder: Path) -> str:
    """Reads bytes as a bundle and returns why they are refused; any other outcome fails the test."""
    path = folder / "x.srl"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_bundle(path, CPU)
    assert caught.value.code == "bad-bundle"
    assert str(path) in caught.value.message
    assert caught.value.remedy
    assert len(caught.value.message) < 1500
    return caught.value.message
