"""A sample of twenty broken parts: the tests notice every one. `python tests/algorithm/mutation.py` breaks them all."""

from __future__ import annotations

import mutation


def test_a_sample_of_mutants_is_noticed() -> None:
    assert list(mutation.unnoticed(mutation.sample(20, seed=7))) == []


def test_known_equivalents_exist_and_say_why() -> None:
    """A mutant whose line has changed leaves the list, or the list would hide the next one."""
    names = {mutant.name for module in mutation.MODULES for mutant in mutation.mutants(module)}
    known = mutation.equivalents()
    assert set(known) <= names
    assert all(len(reason) > 15 for reason in known.values())


def test_a_mutant_lives_only_inside() -> None:
    """The script changes the loaded functions and puts them back."""
    from grpo.algorithm import part

    before = vars(part).copy()
    mutant = next(m for m in mutation.mutants("part") if m.function == "moments")
    with mutation.alive(mutation.born(mutant)):
        assert part.moments is not before["moments"]
    assert vars(part) == before
