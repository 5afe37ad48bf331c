"""The spine: `module.GRPOModule.training_step` reads as prompts → rollout → rewards → advantages → objective → update.

collect.py      prompts, rollouts and rewards of a step, refilled by dynamic sampling
batch.py        rollouts as tensors; minibatches of whole groups; micro-batches by token budget
logprobs.py     log π and entropy of the sampled tokens
update.py       the objective's gradient with respect to log π, carried through the network
updater.py      one optimizer update: gradient, clipping, refusal of what is not finite
callbacks.py    evaluation, recording and stopping around the steps;  persistence.py  checkpoints
assemble.py     a checked configuration -> the objects of a run;  run.py  one run;  session.py  its life in its folder
"""
