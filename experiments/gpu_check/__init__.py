"""What no CPU can show: kernels, bfloat16, memory, speed and vLLM on a GPU, in five minutes and without a download.

    python -m experiments.gpu_check            on the GPU, or tiny sizes where there is none
    python -m experiments.gpu_check.report     table.md from the kept results

check.py     phases, each guarded by itself, and what is kept of them
model.py     a Llama of 0.5 B parameters with random weights
runs.py      phases that are runs of `python -m grpo`
numerics.py  phases that compute by themselves: kernels, bfloat16, the log-prob pass
sleeping.py  vLLM gives its memory back while the trainer works
"""
