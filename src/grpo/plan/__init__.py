"""Memory of a run from its configuration alone: no weights are loaded, nothing is allocated.

memory.py       what is kept, and the whole
engines.py      what sampling adds: the transformers engine's cache, or vLLM's share of a card
update.py       what an update adds: activations, and a chunk of log-probs
architecture.py the model on the meta device: its parameters, and what its backward pass keeps
__main__.py     `python -m grpo.plan [overrides]`
"""
