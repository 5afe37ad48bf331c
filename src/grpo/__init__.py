"""Group Relative Policy Optimization as compositions of small named parts.

Where to change what (config group -> room):

    algorithm/   the objective: advantage, credit, ratio, surrogate, correction, aggregation, kl, entropy,
                 filter, overlong, shaping, form. A new variant is one YAML in conf/algo and at most one class here.
    tasks/       prompts and answers, disjoint splits          rewards/    what a completion is paid
    models/      the policy: embedded tiny one or transformers  rollout/    engines that sample completions
    training/    the Lightning module, its step and its updates evaluation/ avg@k, pass@k, maj@k, greedy
    recording/   JSONL truth, W&B, progress bar, curves         runs/       folders, checkpoints, resume, preflight
    config/      compose, check and size a run before anything heavy is imported

Importing `grpo` imports nothing heavy.
"""

__version__ = "0.1.0"
