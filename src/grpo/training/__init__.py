"""The spine: `module.GRPOModule.training_step` reads as prompts → rollout → rewards → advantages → objective → update.

collect.py    prompts, rollouts and rewards of a step, refilled by dynamic sampling
batch.py      rollouts as tensors; minibatches of whole groups; micro-batches by token budget
logprobs.py   log π and entropy of the sampled tokens
update.py     one optimizer update from the objective's gradient with respect to log π
callbacks.py  evaluation, checkpoints, recording and stopping around the steps
run.py        one run from a checked configuration to its folder
"""
