"""Names of other libraries, and what takes their place here."""

from __future__ import annotations

HABITS = {
    "policy": "Leave it out: the network follows from the spaces; net_arch and activation_fn shape it.",
    "policy_kwargs": "Its entries are arguments of their own here: net_arch=(64, 64), activation_fn='relu', ...",
    "features_extractor_class": "Pass encoders={'path': MyEncoder} in Python, or cnn for one of the library's.",
    "normalize_images": "Leave it out: images are divided by 255, once, inside the policy.",
    "n_envs": "It is called num_envs here.",
    "total_timesteps": "Pass it to learn: agent.learn(total_timesteps=...).",
    "timesteps": "It is called total_timesteps here: agent.learn(total_timesteps=...), or steadyrl.train's.",
    "n_timesteps": "It is called total_timesteps here: agent.learn(total_timesteps=...), or steadyrl.train's.",
    "verbose": "Pass learn a display instead: callback=steadyrl.make_display('plain').",
    "progress_bar": "Pass learn a display instead: callback=steadyrl.make_display('auto').",
    "display": "Pass a display as a callback: callback=steadyrl.make_display('plain').",
    "quiet": "Leave it out: nothing shows progress unless a display is asked for.",
    "torch_deterministic": "It is called deterministic here.",
    "tensorboard_log": "Pass run_dir to learn: the run folder holds TensorBoard's files.",
    "tb_log_name": "Pass run_dir to learn: the run folder holds TensorBoard's files.",
    "reset_num_timesteps": "Leave it out: a further call of learn always goes on.",
    "n_eval_episodes": "It is called eval_episodes here, and belongs to the agent: PPO(env, eval_episodes=10).",
    "eval_log_path": "Pass run_dir to learn: evaluations are written into the run folder.",
    "action_noise": "Pass action_noise_type ('normal', 'ornstein-uhlenbeck') and action_noise_std instead.",
    "replay_buffer_class": "Leave it out: hindsight='future' and prioritized=True choose another replay.",
    "replay_buffer_kwargs": "Its entries are arguments of their own here: n_sampled_goal, hindsight.",
    "optimize_memory_usage": "Leave it out: a replay keeps each frame of stacked pictures once (replay_frames).",
    "stats_window_size": "Leave it out: rollout/ep_rew_mean is over the last 100 episodes.",
    "lstm_hidden_size": "It is called recurrent_size here, beside recurrent='lstm'.",
    "shared_lstm": "It is called recurrent_shared here, beside recurrent='lstm'; both losses train the memory then.",
    "n_lstm_layers": "Leave it out: a memory has one layer.",
    "num_steps": "It is called n_steps here.",
    "update_epochs": "It is called n_epochs here.",
    "num_minibatches": "Pass batch_size instead, the transitions of one minibatch.",
    "clip_coef": "It is called clip_range here.",
    "norm_adv": "It is called normalize_advantage here.",
    "anneal_lr": "Pass learning_rate_end=0 instead.",
}
"""Argument elsewhere -> what to do here."""

EVALUATE = {
    "n_eval_episodes": "It is called episodes here.",
    "n_episodes": "It is called episodes here.",
    "eval_episodes": "It is called episodes here.",
    "eval_env": "It is called env here.",
    "return_episode_rewards": "Leave it out: the result has returns and lengths of every episode.",
    "render": "Leave it out: `steadyrl record RUN` makes a video of a run's agent.",
    "use_masking": "Leave it out: a policy that was trained with action masks is evaluated with them.",
}
"""Argument of an evaluation elsewhere -> what to do here."""

_VEC = "The agent makes its vector of environments itself: steadyrl.PPO('CartPole-v1', num_envs=8"
_EPISODES = "Leave it out: learn with run_dir=... writes every episode into episodes.jsonl."
_MASKS = "Use steadyrl.PPO(env): action masks are found by themselves."
_NOISE = "Pass action_noise_type ('normal', 'ornstein-uhlenbeck') and action_noise_std to the agent, in [-1, 1]."
_EVENTS = "Pass learn a function of events, callback=...; run_dir=... gives metrics.jsonl and TensorBoard's files."
_OWN_ENV = "agent.make_env() makes an environment like its own; agent.loop.venv is the vector that it learns in."
_REPLAY = "The replay is in the checkpoints of a run folder: steadyrl.train(...), then steadyrl.resume(run_folder)."

NAMES = {
    "make_vec_env": f"{_VEC}, wrappers=[...]).",
    "DummyVecEnv": f"{_VEC}, vec='sync').",
    "SubprocVecEnv": f"{_VEC}, vec='async').",
    "VecNormalize": "Pass normalize_obs=True and normalize_reward=True to the agent; they are saved with the policy.",
    "VecFrameStack": "Pass frame_stack=4 to the agent; with the ids of Atari frames are stacked by themselves.",
    "make_atari_env": "Pass the id alone, steadyrl.PPO('ALE/Pong-v5'): it brings Atari's preprocessing with it.",
    "Monitor": _EPISODES,
    "VecMonitor": _EPISODES,
    "evaluate_policy": "Use steadyrl.evaluate(agent, episodes=100); the result has mean and std.",
    "EvalCallback": "Pass eval_freq=..., in environment steps, to the agent; on with a run folder.",
    "CheckpointCallback": "Pass checkpoint_freq=..., in environment steps, to the agent; on with a run folder.",
    "BaseCallback": "Pass learn a function of one event, callback=...; it ends the call by returning False.",
    "CallbackList": "Pass learn a list of functions of one event: callback=[...].",
    "HerReplayBuffer": "Pass hindsight='future' to an agent with a replay, such as steadyrl.SAC.",
    "RecurrentPPO": "Use steadyrl.PPO(env, recurrent='lstm').",
    "QRDQN": "Use steadyrl.DQN(env, head='quantile').",
    "NormalActionNoise": _NOISE,
    "OrnsteinUhlenbeckActionNoise": _NOISE,
    "BaseFeaturesExtractor": "Write a torch.nn.Module with an attribute `features`: encoders={'path': MyEncoder}.",
    "StopTrainingOnRewardThreshold": "Pass learn a function of one event that returns False once event.mean is enough.",
    "StopTrainingOnMaxEpisodes": "Pass learn a function of one event that returns False after so many EpisodeEnded.",
    "set_random_seed": "Pass seed=... to the agent; it seeds everything that the training draws from.",
    "MaskablePPO": _MASKS,
    "ActionMasker": _MASKS,
}
"""Class or function elsewhere -> what to do here."""

ATTRIBUTES = {
    "save_replay_buffer": _REPLAY,
    "load_replay_buffer": _REPLAY,
    "get_env": _OWN_ENV,
    "env": _OWN_ENV,
    "get_vec_normalize_env": "Read agent.policy.normalizer: the statistics belong to the policy.",
    "n_envs": "Read agent.config.num_envs.",
    "device": "Read agent.policy.device.",
    "logger": _EVENTS,
    "set_logger": _EVENTS,
    "get_parameters": "Use agent.policy.state_dict().",
    "set_parameters": "Use agent.policy.load_state_dict(...).",
    "set_random_seed": "Pass seed=... when the agent is made.",
}
"""Attribute of an agent elsewhere -> what to do here."""
