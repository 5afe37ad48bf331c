"""Every mistake is one exact sentence, found before anything heavy is imported and before a folder is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.errors import ConfigError


def said(*arguments: str, composer: Composer) -> str:
    with pytest.raises(ConfigError) as caught:
        load(arguments, composer)
    assert caught.value.exit_code == 1
    return str(caught.value)


def test_all_mistakes_at_once(composer: Composer) -> None:
    assert said("+algos=dapo", "grup_size=16", "surrogate.hihg=0.3", composer=composer) == (
        "3 mistakes in the configuration:\n"
        "  algos            there is no such group; did you mean algo? (+algo=dapo)\n"
        "  grup_size        there is no such key; did you mean group_size?\n"
        "  surrogate.hihg   clip has low, high, dual_c, delta; did you mean high?"
    )


def test_mistakes_of_every_kind_are_told_together_in_the_order_of_the_command_line(composer: Composer) -> None:
    lines = said("grup_size=1", "surrogate=klipp", "updates.minibatches=0", "optimizer.lr=abc", composer=composer)
    assert [line.split()[0] for line in lines.splitlines()[1:]] == [
        "grup_size",
        "surrogate",
        "updates.minibatches",
        "optimizer.lr",
    ]


AFTER = "an advantage compares the completions of one prompt"


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("grup_size=16", "grup_size   there is no such key; did you mean group_size?"),
        ("+grup_size=16", "grup_size   there is no such key; did you mean group_size?"),
        ("grup=16", "grup   there is no such key; did you mean group_size?"),
        (
            "hydra.run.dir=x",
            "hydra.run.dir   has no effect here: output_dir says where runs go, --config-dir adds a folder, "
            "hydra/launcher goes with -m",
        ),
        ("zzz=1", "zzz   there is no such key; --help lists them"),
        ("lr=1e-5", "lr   there is no such key; did you mean optimizer.lr?"),
        ("minibatches=4", "minibatches   there is no such key; did you mean updates.minibatches?"),
        ("temprature=2", "temprature   there is no such key; did you mean sampling.temperature?"),
        ("num_generations=8", "num_generations   there is no such key; TRL's num_generations is group_size here"),
        ("surogate=clip", "surogate   there is no such group; did you mean surrogate? (surrogate=clip)"),
        ("updates.epoch=2", "updates.epoch   updates has epochs, minibatches; did you mean epochs?"),
        ("updates=3", "updates   is a group of keys, not the single value 3"),
        ("updates=[1,2]", "updates   is a group of keys, not the list [1, 2]"),
        (
            "~reward.functions.exact.extract",
            "reward.functions.exact.extract   cannot be removed; set it to null or to the value that switches it off",
        ),
        ("model.lr=abc", "model.lr   must be a number, not abc"),
        ("seed.x=3", "seed.x   seed is a single value and has no keys"),
        ("reward.weights.exact=1", "reward.weights.exact   reward has functions, accuracy, right_at, time_limit"),
        ("choices.algo=dapo", "choices.algo   there is no such key; --help lists them"),
        ("+algo=[grpo,dapo]", "algo   takes one algorithm, not 2; to run each of them: -m algo=grpo,dapo"),
        ("algo=grpo,dapo", "algo   algo=grpo,dapo is more than one value; add -m to run a job for each"),
        ("seed=range(3)", "seed   seed=range(3) is more than one value; add -m to run a job for each"),
        ("model=tinny", "model   there is no model tinny; did you mean tiny? (all: hf, smollm2, tiny)"),
        ("~kl", "kl   cannot be removed; use kl=none"),
        ("~seed", "seed   cannot be removed; set it to null or to the value that switches it off"),
        ("group_size", "group_size   is not key=value; python -m grpo --help shows how to write it"),
        (
            "logger.tags=[1,2",
            "logger.tags=[1,2   cannot be read (no viable alternative at input '[1,2'); "
            "quote a value with special characters: 'key=\"value\"'",
        ),
        ("group_size=1", f"group_size   must be at least 2, not 1: {AFTER}"),
        ("group_size=-4", f"group_size   must be at least 2, not -4: {AFTER}"),
        ("group_size=2.5", "group_size   must be a whole number, not 2.5"),
        ("group_size=16.0", "group_size   must be a whole number, not 16.0; write 16"),
        ("group_size=abc", "group_size   must be a whole number, not abc"),
        ("group_size='16'", 'group_size   must be a whole number, not "16"'),
        ("group_size=true", "group_size   must be a whole number, not true"),
        ("group_size=null", "group_size   must be a whole number, not null"),
        ("group_size=${oops}", "group_size   refers to ${oops}, which is no key"),
        ("seed=-1", "seed   must be at least 0, not -1"),
        ("optimizer.lr=abc", "optimizer.lr   must be a number, not abc"),
        ("optimizer.lr=0", "optimizer.lr   must be greater than 0, not 0"),
        ("optimizer.lr=true", "optimizer.lr   must be a number, not true"),
        ("optimizer.lr=nan", "optimizer.lr   must be greater than 0, not nan"),
        ("optimizer.betas=0.9", "optimizer.betas   must be a list such as [0.9,0.99], not 0.9"),
        ("sampling.temperature=0", "sampling.temperature   must be greater than 0, not 0"),
        ("sampling.top_p=1.5", "sampling.top_p   must be at most 1, not 1.5"),
        ("sampling.top_k=-1", "sampling.top_k   must be at least 0, not -1"),
        ("max_completion_tokens=0", "max_completion_tokens   must be at least 1, not 0"),
        ("eval.samples=0", "eval.samples   must be at least 1, not 0"),
        ("eval.questions=0", "eval.questions   must be at least 1, not 0"),
        ("rollout.lag=-1", "rollout.lag   must be at least 0, not -1"),
        (
            "schedule=linearr",
            "schedule   there is no schedule linearr; did you mean linear? (all: constant, cosine, linear)",
        ),
        ("preflight=of", "preflight   must be strict, warn or off, not of; did you mean off?"),
        ("save_rollouts=yes", "save_rollouts   must be true or false, not yes"),
        ("output_dir=3", "output_dir   must be text, not 3"),
        ("model.gradient_checkpointing=yes", "model.gradient_checkpointing   must be auto, true or false, not yes"),
        ("trainer.devices=0", "trainer.devices   must be auto or a whole number of at least 1, not 0"),
        ("surrogate.high=-1", "surrogate.high   must be at least 0, not -1"),
        ("surrogate.high=true", "surrogate.high   must be a number, not true"),
        ("surrogate.high={x:1}", "surrogate.high   must be a number, not {'x': 1}"),
        ("kl.place=los", "kl.place   must be loss or reward, not los; did you mean loss?"),
        (
            "surrogate._target_=nowhere.Foo",
            "surrogate._target_   cannot import nowhere (No module named 'nowhere'); is its folder on PYTHONPATH?",
        ),
        (
            "surrogate._target_=grpo.algorithm.surrogate.Clop",
            "surrogate._target_   grpo.algorithm.surrogate has no Clop; did you mean Clip?",
        ),
        ("reward.functions.exact.weight=abc", "reward.functions.exact.weight   must be a number, not abc"),
        ("reward.functions.exact.weight=0", "reward.functions   every weight is 0, so nothing is rewarded"),
        (
            "reward.functions.exat.weight=1",
            "reward.functions.exat.weight   reward.functions has exact; did you mean exact?",
        ),
        ("reward.accuracy=exat", "reward.accuracy   there is no reward function exat; use exact"),
    ],
)
def test_sentence(argument: str, sentence: str, composer: Composer) -> None:
    assert said(argument, composer=composer) == sentence


def test_unknown_options_list_the_valid_ones(composer: Composer) -> None:
    for argument, near in [("algo=dpao", "dapo"), ("task=aritmetic", "arithmetic"), ("surrogate=klip", "clip")]:
        group, word = argument.split("=")
        noun = {"algo": "algorithm"}.get(group, group)
        names = ", ".join(composer.groups[group])
        expected = f"{group}   there is no {noun} {word}; did you mean {near}? (all: {names})"
        assert said(argument, composer=composer) == expected


def test_two_algorithms_are_one_too_many(composer: Composer) -> None:
    text = said("algo=grpo", "+algo=dapo", composer=composer)
    assert text == "algo   is given twice, grpo and dapo; give one"


def test_keys_of_an_unknown_group_are_not_judged(composer: Composer) -> None:
    assert "\n" not in said("surrogate=klip", "surrogate.tau=1", composer=composer)


def test_whole_numbers_of_parts_are_whole(composer: Composer) -> None:
    text = said("filter=mixed_groups", "filter.max_rounds=10.0", composer=composer)
    assert text == "filter.max_rounds   must be a whole number, not 10.0; write 10"


def test_quoted_numbers_are_numbers(composer: Composer) -> None:
    # A file read by PyYAML has "1e-6" as text, and W&B sends what it has.
    config, resolved = load(["optimizer.lr='1e-6'", "surrogate.high='0.28'"], composer)
    assert (config.optimizer.lr, resolved["optimizer"]["lr"], config.surrogate.high) == (1e-6, 1e-6, 0.28)


def test_a_module_that_fails_is_named(composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_a_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = said("surrogate._target_=half_a_module.Foo", composer=composer)
    assert text == ("surrogate._target_   cannot import half_a_module: it raised ZeroDivisionError: division by zero")
