"""Arguments under the names of other libraries, and what takes their place here."""

from __future__ import annotations

HABITS = {
    "policy": "Leave it out: the network follows from the spaces; net_arch and activation_fn shape it.",
    "policy_kwargs": "Its entries are arguments of their own here: net_arch=(64, 64), activation_fn='relu', ...",
    "features_extractor_class": "Pass encoders={'path': MyEncoder} in Python, or cnn for one of the library's.",
    "normalize_images": "Leave it out: images are divided by 255, once, inside the policy.",
    "n_envs": "It is called num_envs here.",
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
"""Name elsewhere -> what to do here."""
