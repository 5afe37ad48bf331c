"""Memory of a run from its configuration alone: no weights are loaded, nothing is allocated.

memory.py       what is kept, what a rollout adds, what an update adds: the arithmetic
architecture.py the model on the meta device: its parameters, and what its backward pass keeps
__main__.py     `python -m grpo.plan [overrides]`
"""
