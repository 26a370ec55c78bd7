"""Rules about vector versions."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import ANY, Found, rule
from steadyrl.checker.probe.batched import Batched
from steadyrl.checker.probe.vectors import Vectors


@rule(
    "SRL-VEC-001",
    "vector-final-obs",
    "error",
    "vector",
    "the vector version loses the last observation of an episode",
    'In SAME_STEP mode put it into infos["final_obs"][i], with the mask infos["_final_obs"]; else return it as it is.',
)
def final_obs(vectors: Vectors) -> Iterator[Found]:
    """Without it a truncated step cannot be bootstrapped."""
    if vectors.final is not None:
        yield Found(
            f"Environment {vectors.final.row} ended in vector step {vectors.final.step}, and {vectors.final.what}.",
            vectors.final.evidence,
        )


@rule(
    "SRL-VEC-002",
    "vector-mismatch",
    "error",
    "vector",
    "the vector version differs from the single environment",
    "Let it compute what the single environment does; equal seeds (seed + i) and actions have to give equal steps.",
)
def mismatch(vectors: Vectors) -> Iterator[Found]:
    """Step by step the same as single environments."""
    if vectors.unlike is not None:
        yield Found(
            f"In vector step {vectors.unlike.step}, environment {vectors.unlike.row}: {vectors.unlike.what}.",
            vectors.unlike.evidence,
        )


@rule(
    "SRL-VEC-003",
    "vector-mismatch",
    "error",
    "vector",
    "the vector version has another form than it declares",
    "Return one entry for each environment; its spaces are batch_space(single_space, num_envs).",
)
def form(vectors: Vectors) -> Iterator[Found]:
    """Shapes and spaces of a batch."""
    if vectors.form:
        yield Found(f"The vector version is not in order: {vectors.form}.", {"value": vectors.form})


@rule(
    "SRL-VEC-004",
    "vector-raises",
    "error",
    "vector",
    "the vector version raises",
    "Correct it there.",
)
def raises(vectors: Vectors) -> Iterator[Found]:
    """A vector version works with valid actions."""
    if vectors.raised is not None:
        fault = vectors.raised
        yield Found(
            f"{fault.phase}() of the vector version raised {fault.error} ({fault.where}).",
            {"step": fault.step, "value": fault.error, "where": fault.where},
        )


@rule(
    "SRL-VEC-005",
    "vector-mismatch",
    "error",
    "vector",
    "all environments of the vector start alike",
    "Give environment i the seed seed + i, as Gymnasium's own vectors do.",
    unless=("seed-ignored",),
)
def alike(vectors: Vectors) -> Iterator[Found]:
    """One seed, different environments."""
    if vectors.alike:
        yield Found("All environments of the vector start alike, while the single one follows its seed.")


@rule(
    "SRL-VEC-006",
    "nondeterministic",
    "error",
    "vector",
    "the vector version does not repeat itself with the same seed",
    "Seed everything that it draws from in reset(seed).",
    unless=("global-rng", "seed-ignored"),
)
def repeats(vectors: Vectors) -> Iterator[Found]:
    """Same seed and actions, same course."""
    if vectors.repeats is not None:
        yield Found(
            f"Two vectors with equal seed and actions differ in step {vectors.repeats.step}: {vectors.repeats.what}.",
            vectors.repeats.evidence,
        )


@rule(
    "SRL-VEC-007",
    "obs-aliased",
    "error",
    "vector",
    "the vector version writes into observations that it has returned",
    "Return copies of its buffers.",
)
def aliased(vectors: Vectors) -> Iterator[Found]:
    """What was returned belongs to the caller."""
    if vectors.aliased is not None:
        yield Found(
            f"The observations of vector step {vectors.aliased.step} changed afterwards: {vectors.aliased.what}.",
            vectors.aliased.evidence,
        )


@rule(
    "SRL-VEC-008",
    "action-mutated",
    "error",
    "vector",
    "the vector version writes into the caller's actions",
    "Copy them first.",
)
def mutated(vectors: Vectors) -> Iterator[Found]:
    """Actions belong to the caller."""
    if vectors.mutated is not None:
        yield Found(f"In vector step {vectors.mutated.step} {vectors.mutated.what}.", vectors.mutated.evidence)


@rule(
    "SRL-VEC-009",
    "obs-out-of-space",
    "error",
    "vector",
    "observations of the vector version are unlike its space",
    "Make observation and space agree.",
)
def observations(vectors: Vectors) -> Iterator[Found]:
    """Observations of each environment are members of its space."""
    for unlike in list(vectors.obs_faults.values())[:1]:
        yield Found(
            f"The observation of environment {unlike.row} in vector step {unlike.step} is {unlike.what}.",
            unlike.evidence,
        )


@rule(
    "SRL-VEC-010",
    "vector-mode-missing",
    "note",
    "vector",
    "the vector version does not say how it resets",
    'Declare metadata["autoreset_mode"].',
)
def mode_missing(vectors: Vectors) -> Iterator[Found]:
    """Whoever steps it has to know when it resets."""
    if not vectors.mode and vectors.raised is None:
        yield Found("The vector version declares no autoreset mode; NEXT_STEP was assumed.")


@rule(
    "SRL-VEC-011",
    "vector-own-seeds",
    "note",
    "vector",
    "the vector version draws other starts than single environments",
    "Nothing has to be done; results of the two can then be compared over many episodes only.",
)
def own_seeds(vectors: Vectors) -> Iterator[Found]:
    """Then the two cannot be held together step by step."""
    if not vectors.comparable and vectors.compared and vectors.raised is None:
        yield Found(
            "The vector version starts otherwise than single environments with the same seeds; it was not compared."
        )


@rule(
    "SRL-VEC-012",
    "vectorize-fails",
    "error",
    "batched",
    "several instances in one of Gymnasium's vectors do not do what each does alone",
    "Keep state and buffers on the instance, and infos and observations in one form: vectors put them into arrays.",
    unless=(ANY,),
)
def vectorized(batched: Batched) -> Iterator[Found]:
    """SyncVectorEnv in each autoreset mode and AsyncVectorEnv, beside instances that are stepped one by one."""
    for name, seen in batched.seen.items():
        unlike = seen.unlike or seen.final
        if seen.raised is not None:
            what = f"{seen.raised.phase}() raised {seen.raised.error}"
        elif unlike is not None:
            what = f"in step {unlike.step} of environment {unlike.row}, {unlike.what}"
        else:
            continue
        yield Found(f"Put together by {name}: {what}.", {"key": name, "value": what})
        return
