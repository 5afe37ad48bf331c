"""`python -m grpo.plan [overrides]`: the memory a run would need, from its configuration alone.

    python -m grpo.plan model=smollm2 model.lora.r=8
    python -m grpo.plan model=hf model.path=FOLDER trainer=gpu     a folder with config.json is enough
    python -m grpo.plan --parameters 70e9 --dtype bfloat16         weights, gradients, optimizer and reference

Free arguments are overrides, as for python -m grpo. No weights are loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from grpo.cli import guarded, side_parser
from grpo.config.check import load
from grpo.config.compose import Composer

TYPES = ("float32", "bfloat16", "float16", "float64")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return guarded(_main, argv)


def _main(argv: list[str]) -> int:
    parser = side_parser("grpo.plan", __doc__)
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="model=..., group_size=..., as for a run")
    parser.add_argument("--parameters", type=float, metavar="N", help="number of parameters, in place of a model")
    parser.add_argument("--dtype", choices=TYPES, help="type of the weights, with --parameters; else model.dtype")
    parser.add_argument("--config-dir", "-cd", help="a configuration folder of your own")
    args = parser.parse_intermixed_args(argv)
    if args.parameters is not None and not 1 <= args.parameters < float("inf"):
        parser.error(f"--parameters must be a number of at least 1, not {args.parameters:g}")
    if args.dtype and args.parameters is None:
        parser.error("--dtype goes with --parameters; a model's is model.dtype=...")
    config, _ = load(args.overrides, Composer(args.config_dir))
    if args.parameters is not None and config.model.lora.r is not None:
        parser.error("an adapter's size follows from the model's shapes; leave --parameters out and give the model")
    from grpo.models.load import pick_dtype  # torch and transformers: seconds, hence after the check
    from grpo.plan.memory import from_count, plan

    if args.parameters is not None:
        made = from_count(config, args.parameters, pick_dtype(args.dtype or config.model.dtype))
    else:
        made = plan(config)
    print("\n".join(made.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
