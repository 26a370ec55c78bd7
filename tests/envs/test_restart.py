"""How often, how soon and with which seeds failing environments are started anew."""

import pytest

from steadyrl.envs.failure import Failure
from steadyrl.envs.restart import MAX_BACK_OFF_S, Restarts
from steadyrl.errors import RunFailedError

ERROR = RunFailedError("it broke", remedy="Mend it.")


def test_the_wait_doubles_with_failures_in_a_row_of_one_environment_and_no_further_than_its_limit() -> None:
    waits: list[float] = []
    restarts = Restarts(2, 100, 0, waits.append)
    for _ in range(9):
        restarts.next_seed(0, ERROR)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, MAX_BACK_OFF_S, MAX_BACK_OFF_S]
    restarts.next_seed(1, ERROR)
    assert len(waits) == 8
    restarts.fine(0)
    restarts.next_seed(0, ERROR)
    assert len(waits) == 8
    restarts.next_seed(0, ERROR)
    assert waits[8:] == [0.1]
    assert (restarts.counts, restarts.total) == ([11, 1], 12)


def test_seeds_hang_on_root_environment_and_count_alone() -> None:
    one, other = (Restarts(3, 100, 7, lambda seconds: None) for _ in range(2))
    order, another = [0, 1, 0, 2, 2, 0, 1], [2, 0, 1, 0, 1, 2, 0]
    seeds = {i: [one.next_seed(j, ERROR) for j in order if j == i] for i in range(3)}
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for i in another:
        found[i].append(other.next_seed(i, ERROR))
    assert found == seeds
    assert len({seed for own in seeds.values() for seed in own}) == 7
    assert Restarts(1, 1, 8).next_seed(0, ERROR) != seeds[0][0]


@pytest.mark.parametrize(("budget", "told"), [(1, "anew once before"), (3, "anew 3 times before")])
def test_beyond_the_budget_the_last_error_is_raised_and_says_how_often(budget: int, told: str) -> None:
    restarts = Restarts(2, budget, 0, lambda seconds: None)
    for i in range(budget):
        restarts.next_seed(i % 2, ERROR)
    last = RunFailedError("the last one", remedy="Mend it.")
    with pytest.raises(RunFailedError, match="the last one") as caught:
        restarts.next_seed(0, last)
    assert caught.value is last
    assert last.remedy == f"Mend it. Environments were started {told}, all that env_restart_budget allows."
    assert restarts.total == budget


def test_no_budget_stops_at_the_first_failure_without_a_word_of_restarts() -> None:
    error = KeyError("bare")
    with pytest.raises(KeyError) as caught:
        Restarts(1, 0, 0).next_seed(0, error)
    assert caught.value is error


def test_what_happened_waits_to_be_told() -> None:
    failure = Failure(1, None, "step", 3, 5, None, None, [0, 1, 0], True, "ValueError: x", "")
    error = RunFailedError("Environment 1 raised ValueError")
    error.failure = failure
    restarts = Restarts(2, 9, 0, lambda seconds: None)
    failed = [(1, error), (0, ERROR), (0, OSError("gone")), (0, error)]
    seeds = [restarts.next_seed(i, what) for i, what in failed]
    assert restarts.pending == [
        (1, seeds[0], "ValueError: x", failure),
        (0, seeds[1], "it broke", None),
        (0, seeds[2], "gone", None),
        (0, seeds[3], "Environment 1 raised ValueError", None),  # the record is of another environment
    ]


def test_seeds_and_waits_go_on_from_a_state() -> None:
    waits: list[float] = []
    whole, first, second = (Restarts(2, 9, 7, each.append) for each in ([], [], waits))
    seeds = [whole.next_seed(i, ERROR) for i in (0, 1, 0, 0)]
    found = [first.next_seed(i, ERROR) for i in (0, 1)]
    state = first.state()
    second.restore(state)
    first.next_seed(1, ERROR)  # does not reach what was taken
    assert second.state() == {"counts": [1, 1], "in_a_row": [1, 1]}
    assert [*found, second.next_seed(0, ERROR), second.next_seed(0, ERROR)] == seeds
    assert waits == [0.1, 0.2]
    assert state == {"counts": [1, 1], "in_a_row": [1, 1]}
