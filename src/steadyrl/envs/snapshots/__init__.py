"""The parts of `steadyrl.envs.snapshot`: one file an idea."""
