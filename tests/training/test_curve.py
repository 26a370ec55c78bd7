from __future__ import annotations

import json
import math
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from steadyrl.errors import UserError
from steadyrl.training.curve import Axis, Evaluated, curve_svg, write_curve
from steadyrl.training.logging import RunWriter
from support.simulated_run import SimulatedRun

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def shapes(svg: str, tag: str, name: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(svg).iter(SVG + tag) if element.get("class") == name]


def dots(svg: str) -> list[tuple[float, float]]:
    path = shapes(svg, "path", "episodes")[-1].get("d") or ""
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", path)]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "CartPole-v1" / "ppo" / "20260131T235959Z-seed3"
    writer = RunWriter(folder, tensorboard=False)
    for event in SimulatedRun(run_dir=folder).events():
        writer(event)
    writer.close()
    (folder / "config.json").write_text(json.dumps({"algo": "ppo", "settings": {"env": "CartPole-v1", "seed": 3}}))
    return folder


def test_a_run_gets_a_picture_with_title_names_and_n(run_dir: Path) -> None:
    path = write_curve(run_dir)
    assert path == run_dir / "curve.svg"
    said = texts(path.read_text())
    assert said[0] == "PPO on CartPole-v1, seed 3"
    assert said[1] == "last evaluation 500, 95% interval [495, 505], n = 10 episodes; 392 training episodes"
    for name in ("training episode", "mean of the last 100 training episodes", "evaluation, mean and 95% interval"):
        assert name in said
    assert {"environment steps", "return per episode", "0", "100k", "500"} <= set(said)
    assert len(shapes(path.read_text(), "circle", "dot")) == 10 + 1, "ten evaluations and the legend"
    assert sorted(os.listdir(run_dir)) == ["config.json", "curve.svg", "episodes.jsonl", "evals.jsonl", "metrics.jsonl"]


def test_few_episodes_are_as_plain_as_in_the_key() -> None:
    def opacity(count: int) -> tuple[str | None, str | None]:
        svg = curve_svg("few", [(float(i), float(i % 7)) for i in range(count)], [])
        key, shown = shapes(svg, "path", "episodes")
        return key.get("style"), shown.get("style")

    assert opacity(20) == ("stroke-opacity:.6", "stroke-opacity:.6")
    assert opacity(1000) == ("stroke-opacity:.6", None)


def test_the_same_folder_gives_the_same_bytes(run_dir: Path) -> None:
    assert write_curve(run_dir).read_bytes() == write_curve(run_dir).read_bytes()


def test_without_a_configuration_the_folder_names_the_run(run_dir: Path) -> None:
    (run_dir / "config.json").unlink()
    assert texts(write_curve(run_dir).read_text())[0] == "PPO on CartPole-v1"


def test_names_are_escaped(run_dir: Path) -> None:
    (run_dir / "config.json").write_text(json.dumps({"algo": "a2c", "settings": {"env": "x.py:My<Env>&", "seed": 9}}))
    assert texts(write_curve(run_dir).read_text())[0] == "A2C on x.py:My<Env>&, seed 9"


def test_an_environment_of_a_file_is_shown_without_its_folder(run_dir: Path) -> None:
    env = f"{run_dir / 'deep/walk.py'}:Walk"
    (run_dir / "config.json").write_text(json.dumps({"algo": "ppo", "settings": {"env": env, "seed": 0}}))
    picture = write_curve(run_dir).read_text()
    assert texts(picture)[0] == "PPO on walk.py:Walk, seed 0"
    assert str(run_dir) not in picture


def test_points_stand_where_the_axes_say() -> None:
    svg = curve_svg("t", [(0, 0.0), (50, 5.0), (100, 10.0)], [Evaluated(100, 10.0, 8.0, 12.0, 10)])
    (x0, y0), (x1, y1), (x2, y2) = dots(svg)
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.6)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.6)
    assert y0 > y2, "more is higher"
    dot = shapes(svg, "circle", "dot")[-1]
    assert (float(dot.get("cx", 0)), float(dot.get("cy", 0))) == pytest.approx((x2, y2), abs=0.6)


def test_the_line_is_the_mean_of_the_last_100() -> None:
    svg = curve_svg("t", [(step, 0.0 if step <= 100 else 8.0) for step in range(1, 151)], [])
    line = shapes(svg, "path", "training")[-1].get("d") or ""
    low, high = min(dots(svg), key=lambda dot: -dot[1])[1], min(dots(svg), key=lambda dot: dot[1])[1]
    last = float(line.split()[-1])
    assert last == pytest.approx((low + high) / 2, abs=0.6), "50 of the last 100 returned 8, the others 0"


def test_what_is_not_drawn_is_counted() -> None:
    episodes = [(step, float(step % 7)) for step in range(1, 1000)] + [(1000, math.nan), (1001, -1e5)]
    svg = curve_svg("t", episodes, [])
    assert texts(svg)[1] == "1,001 training episodes; 1 not finite; 1 outside the picture"
    assert "nan" not in svg


def test_many_episodes_make_a_small_file() -> None:
    episodes = [(step, float(step % 500)) for step in range(200_000)]
    assert len(curve_svg("t", episodes, [])) < 6_000_000
    assert len(curve_svg("t", [(step, float(step % 3)) for step in range(200_000)], [])) < 120_000


@pytest.mark.parametrize(
    ("episodes", "evaluations"),
    [
        ([], []),
        ([(1, 0.0)], []),
        ([(5, 3.0), (9, 3.0)], []),
        ([], [Evaluated(10, 1.0, math.nan, math.nan, 1)]),
        ([(10, math.inf)], []),
        ([(10, 1e18), (20, -1e18)], []),
        ([(10, 1e-12), (20, 2e-12)], []),
    ],
)
def test_odd_data_still_make_a_valid_picture(episodes: list[tuple[float, float]], evaluations: list[Evaluated]) -> None:
    svg = curve_svg("x" * 300, episodes, evaluations)
    ElementTree.fromstring(svg)
    assert not re.search(r'(?:x|y|x1|x2|y1|y2|cx|cy|d)="[^"]*(?:nan|inf)', svg)
    drawn = bool(evaluations) or any(math.isfinite(value) for _, value in episodes)
    assert ("no episode has ended" in texts(svg)) is not drawn
    assert len(texts(svg)[0]) == 70


def test_ticks_are_round_and_inside() -> None:
    assert Axis(-20, 520, 0, 1).ticks(5) == [0, 100, 200, 300, 400, 500]
    assert Axis(0, 1_000_000, 0, 1).ticks(6) == [0, 200_000, 400_000, 600_000, 800_000, 1_000_000]
    assert Axis(-1700, -90, 0, 1).ticks(5) == [-1500, -1250, -1000, -750, -500, -250]


def test_step_ticks_are_all_in_thousands_or_none() -> None:
    assert {"0", "2.5k", "5k", "10k", "12.5k", "20k"} <= set(texts(curve_svg("t", [(20_000, 1.0)], [])))
    assert {"0", "1000", "5000"} <= set(texts(curve_svg("t", [(6_000, 1.0)], [])))


def test_a_damaged_file_is_named(run_dir: Path) -> None:
    (run_dir / "evals.jsonl").write_text("{}\nnot json\n{}\n")
    with pytest.raises(UserError, match=r"Line 2 of .*evals\.jsonl"):
        write_curve(run_dir)


def test_a_run_without_an_episode_shows_how_far_it_came(run_dir: Path) -> None:
    for name in ("episodes.jsonl", "evals.jsonl"):
        (run_dir / name).unlink()
    (run_dir / "manifest.json").write_text('{"timesteps": 600}')
    said = texts(write_curve(run_dir).read_text())
    assert "no episode has ended" in said
    assert "600" in said
