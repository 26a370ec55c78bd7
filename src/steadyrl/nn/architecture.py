"""What makes a policy's network and how large it is; no torch, so it can be asked before any network is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, Literal, get_args

from steadyrl.errors import UserError
from steadyrl.nn.encoding import Encoding
from steadyrl.spaces import ActionSpec, ActionTree, ObsSpec

Family = Literal["actor_critic", "dqn", "td3", "sac"]
Head = Literal["mean", "c51", "quantile"]
Recurrent = Literal["none", "lstm", "gru"]
MAX_LAYERS = 1000  # of a saved network: making layers takes time even where they are narrow
MAX_JSON, MAX_BUNDLE = 2**20, 2**31  # bytes of a bundle's description, and of a bundle
KINDS = {
    "actor_critic": {"continuous", "discrete", "multidiscrete", "multibinary", "tree"},
    "dqn": {"discrete"},
    "td3": {"continuous"},
    "sac": {"continuous", "discrete"},
}
LATER = {  # older descriptions lack them
    *("layer_norm", "cnn", "embed_above", "share_features_extractor", "encoders"),
    *("recurrent", "recurrent_size", "recurrent_shared"),
}
_SIZES = {"actor_critic": {"pi", "vf"}, "dqn": {"qf"}, "td3": {"pi", "qf"}, "sac": {"pi", "qf"}}


@dataclass(frozen=True)
class Architecture:
    """What makes the network; fields as in the configuration of the algorithm.

    `epsilon` is the share of random actions of a DQN policy that is asked to sample; `outputs` are the numbers that a
    `head` has for each action: 1, atoms or quantiles; `encoders` names the classes of own encoders by path;
    `recurrent_size` is 0 where there is no recurrence. A description of before `layer_norm` or recurrence has none; one
    of before `cnn` flattens images and embeds nothing.
    """

    net_arch: dict[str, tuple[int, ...]]
    activation_fn: str
    log_std_init: float = 0.0
    squash_output: bool = False
    use_sde: bool = False
    family: Family = "actor_critic"
    n_critics: int = 1
    dueling: bool = False
    head: Head = "mean"
    outputs: int = 1
    v_min: float = 0.0
    v_max: float = 0.0
    epsilon: float = 0.0
    layer_norm: bool = False
    cnn: str = "none"
    embed_above: int = 0
    share_features_extractor: bool = True
    encoders: dict[str, str] = field(default_factory=dict)
    recurrent: Recurrent = "none"
    recurrent_size: int = 0
    recurrent_shared: bool = False

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Architecture:
        """The inverse of `dataclasses.asdict`, from JSON; ValueError, TypeError or KeyError for anything else."""
        if missing := {each.name for each in fields(cls)} - {*data, *LATER}:
            raise ValueError(f"the architecture lacks {sorted(missing)[0]}")
        made = cls(**{**data, "net_arch": {name: tuple(sizes) for name, sizes in data["net_arch"].items()}})
        widths = [width for sizes in made.net_arch.values() for width in sizes]
        numbers = (made.log_std_init, made.v_min, made.v_max, made.epsilon)
        good = (
            made.family in get_args(Family)
            and made.head in get_args(Head)
            and made.net_arch.keys() == _SIZES[made.family]
            and all(type(size) is int and size >= 1 for size in (*widths, made.n_critics, made.outputs))
            and max(made.layers, made.n_critics) <= MAX_LAYERS
            and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
            and {type(made.squash_output), type(made.use_sde), type(made.dueling), type(made.layer_norm)} == {bool}
            and {type(made.share_features_extractor)} == {bool}
            and all(type(word) is str for item in made.encoders.items() for word in item)
            and 0.0 <= made.epsilon <= 1.0
            and _head_fits(made)
            and _memory_fits(made)
        )
        if not good:
            raise ValueError(f"{data} is no architecture")
        made.encoding()
        return made

    def encoding(self, own: Mapping[str, Any] | None = None) -> Encoding:
        """How leaves become features, with the classes of own encoders; without, with their names.

        Raises:
            ValueError: there is no such network of images, or a number makes no sense.
        """
        cnn: Any = self.cnn
        return Encoding(cnn, self.embed_above, self.share_features_extractor, self.encoders if own is None else own)

    def own_encoders(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The classes of the own encoders that are named here, by path, out of those given.

        Raises:
            UserError: one is missing, or one is given that is not named, or of another name.
        """
        for path, name in self.encoders.items():
            if path not in given:
                raise UserError(
                    f"The policy has an encoder of its own for {path!r}, the class {name}, which no file holds.",
                    remedy=f"Pass the class: encoders={{{path!r}: {name.rpartition('.')[2]}}}.",
                    code="no-encoder",
                )
            found, known = given[path].__name__, name.rpartition(".")[2]
            if found != known:
                raise UserError(
                    f"The policy's encoder of {path!r} is the class {known}, but encoders has {found}.",
                    remedy=f"Pass {known}; where it has another name by now, pass type({known!r}, ({found},), {{}}).",
                    code="bad-encoder",
                )
        for path in given:
            if path not in self.encoders:
                raise UserError(
                    f"encoders has {path!r}, but the policy was made without an encoder of its own there.",
                    remedy=f"Leave it out; it has some for {', '.join(map(repr, self.encoders)) or 'nothing'}.",
                    code="bad-encoder",
                )
        return dict(given)

    def check(self, action_spec: ActionSpec) -> None:
        """Raises ValueError where the family does not choose among such actions."""
        if action_spec.kind not in KINDS[self.family]:
            raise ValueError(f"the family {self.family} has no network for {action_spec.kind} actions")

    @property
    def layers(self) -> int:
        """Hidden layers of all networks together."""
        once = {name: len(sizes) + (name == "qf") for name, sizes in self.net_arch.items()}
        return sum(once.values()) + (self.n_critics - 1) * once.get("qf", 0)

    def parameters(self, obs_spec: ObsSpec, action_spec: ActionSpec) -> int:
        """How many weights the network has, counted without making it; those of own encoders are not.

        Raises:
            ValueError: the family does not choose among such actions.
        """
        self.check(action_spec)
        return self._linears(obs_spec, action_spec) + self._norms()

    def _norms(self) -> int:
        """Gains and shifts of layer normalisation."""
        copies = {"qf": self.n_critics}
        widths = sum(copies.get(name, 1) * sum(sizes) for name, sizes in self.net_arch.items())
        return 2 * widths if self.layer_norm else 0

    def _linears(self, obs_spec: ObsSpec, action_spec: ActionSpec) -> int:
        """Everything else."""
        encoding, size = self.encoding(), action_spec.size
        features = sum(map(encoding.width, obs_spec.leaves))
        encoder = sum(map(encoding.weights, obs_spec.leaves))
        if self.family == "actor_critic":
            weights = encoder if encoding.shared or self.recurrent_shared else 2 * encoder
            if self.recurrent != "none":
                width = self.recurrent_size
                gates = {"lstm": 4, "gru": 3}[self.recurrent] * width
                weights += (1 if self.recurrent_shared else 2) * gates * (features + width + 2)
                features = width
            return weights + self._actor(features, action_spec) + _network(features, self.net_arch["vf"], 1)
        if action_spec.kind == "discrete":
            outputs = action_spec.nvec[0] * self.outputs
            critic = _network(features, self.net_arch["qf"], outputs)
            critic += _linear(_last(features, self.net_arch["qf"]), self.outputs) if self.dueling else 0
        else:
            critic = _network(features + size, self.net_arch["qf"], 1)
        # Critics of continuous actions have one encoder for all of them.
        encoders = encoder * (("pi" in self.net_arch) + (self.n_critics if action_spec.kind == "discrete" else 1))
        return encoders + self.n_critics * critic + self._actor(features, action_spec)

    def _actor(self, features: int, action_spec: ActionSpec) -> int:
        """Weights of the network that acts."""
        if "pi" not in self.net_arch:
            return 0
        hidden, size = self.net_arch["pi"], action_spec.size
        latent = _last(features, hidden)
        if isinstance(action_spec, ActionTree):
            means = sum(part.size for _, part in action_spec.parts if part.kind == "continuous")
            return _network(features, hidden, sum(_choices(part) for _, part in action_spec.parts)) + means
        if action_spec.kind != "continuous":
            return _network(features, hidden, _choices(action_spec))
        spread = {"actor_critic": size, "td3": 0, "sac": _linear(latent, size), "dqn": 0}[self.family]
        return _network(features, hidden, size) + (latent * size if self.use_sde else spread)


def _choices(action_spec: ActionSpec) -> int:
    """Outputs of the head for an action without parts, log standard deviations aside."""
    return sum(action_spec.nvec) if action_spec.kind in ("discrete", "multidiscrete") else action_spec.size


def _network(features: int, hidden: tuple[int, ...], outputs: int) -> int:
    return sum(_linear(*pair) for pair in pairwise((features, *hidden, outputs)))


def _last(features: int, hidden: tuple[int, ...]) -> int:
    return hidden[-1] if hidden else features


def _linear(width_in: int, width_out: int) -> int:
    return width_in * width_out + width_out


def _memory_fits(made: Architecture) -> bool:
    known = made.recurrent in get_args(Recurrent) and type(made.recurrent_size) is int
    if not known or type(made.recurrent_shared) is not bool:
        return False
    if made.recurrent == "none":
        return made.recurrent_size == 0 and not made.recurrent_shared
    return made.family == "actor_critic" and made.recurrent_size >= 1


def _head_fits(made: Architecture) -> bool:
    if made.head == "mean":
        return made.outputs == 1
    return made.family == "dqn" and (made.head == "quantile" or (made.outputs >= 2 and made.v_min < made.v_max))
