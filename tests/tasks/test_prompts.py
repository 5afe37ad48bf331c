"""The prompt book: order, templates, exactly one BOS, nothing cut."""

import pytest

from grpo.errors import UserError
from grpo.models.architecture import make_tokenizer
from grpo.tasks.arithmetic import Arithmetic
from grpo.tasks.prompts import PromptBook
from grpo.tasks.words import Words


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def book(tokenizer, task=None, seed: int = 0, longest: int = 512) -> PromptBook:
    return PromptBook(task or Arithmetic(), tokenizer, seed, longest)


def test_a_pass_asks_every_question_once(tokenizer) -> None:
    small = book(tokenizer, Arithmetic(digits=1))
    size = small.size("train")
    passes = [[p.id for p in small.train(step, 1)] for step in range(2 * size)]
    first, second = passes[:size], passes[size:]
    assert len({i for (i,) in first}) == size == len({i for (i,) in second})
    assert first != second  # every pass has another order


def test_a_step_does_not_depend_on_how_it_is_reached(tokenizer) -> None:
    one, other = book(tokenizer), book(tokenizer)
    other.train(3, 16)
    other.refill(1, 1, 5)
    # step 5 of 16 prompts is steps 40..47 of 2: positions 80..95 both times
    assert [p.id for p in one.train(5, 16)] == [p.id for step in range(40, 48) for p in other.train(step, 2)]


def test_refills_are_prefixes_and_another_order(tokenizer) -> None:
    b = book(tokenizer)
    assert b.refill(4, 1, 8) == b.refill(4, 1, 16)[:8]
    assert b.refill(4, 1, 8) != b.refill(4, 2, 8) != b.refill(5, 2, 8)
    assert len(book(tokenizer, Arithmetic(digits=1)).refill(0, 1, 100)) == 100  # more than the split has


def test_each_seed_draws_its_own_test_set(tokenizer) -> None:
    ids = [{p.id for p in book(tokenizer, seed=seed).split("test", 512)} for seed in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == 512
    assert len(book(tokenizer, Arithmetic(digits=1)).split("test", 512)) == 15  # all there are


def test_plain_prompts_have_one_bos(tokenizer) -> None:
    prompt = book(tokenizer).train(0, 1)[0]
    assert prompt.token_ids.count(tokenizer.bos_token_id) == 1
    assert prompt.token_ids[0] == tokenizer.bos_token_id
    assert prompt.messages is None
    assert tokenizer.decode(prompt.token_ids[1:]) == prompt.text == f"{prompt.id}="


def test_chat_prompts_have_one_bos_and_end_with_the_assistants_header(tokenizer) -> None:
    prompt = book(tokenizer, Words(system="Be brief.")).train(0, 1)[0]
    # the template writes <bos> and the tokenizer adds one: encoding the text the usual way gives two (K01)
    assert tokenizer.encode(prompt.text)[:2] == [tokenizer.bos_token_id] * 2
    assert prompt.token_ids.count(tokenizer.bos_token_id) == 1
    assert prompt.text.endswith("\nassistant: ")
    assert [m["role"] for m in prompt.messages or ()] == ["system", "user"]


def test_a_template_without_bos_gets_the_tokenizers(tokenizer) -> None:
    bare = make_tokenizer()
    bare.chat_template = (
        "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    ids = book(bare, Words()).train(0, 1)[0].token_ids
    assert ids.count(bare.bos_token_id) == 1
    assert ids[0] == bare.bos_token_id


def test_no_template_is_refused() -> None:
    bare = make_tokenizer()
    bare.chat_template = None
    with pytest.raises(
        UserError, match=r"model\.chat_template   the tokenizer of .* has no chat template and this is a"
    ):
        book(bare, Words())
    book(bare, Arithmetic())  # a plain task needs none


def test_a_failing_template_is_a_sentence() -> None:
    bare = make_tokenizer()
    bare.chat_template = "{{ raise_exception('no system role here') }}"
    with pytest.raises(UserError, match=r"the chat template fails on question .*: no system role here"):
        book(bare, Words(system="x"))


def test_long_prompts_are_counted_and_refused(tokenizer) -> None:
    task = Arithmetic(digits=1)
    # "3+5=" is 4 characters and one BOS: 5 tokens
    assert {len(p.token_ids) for p in book(tokenizer, task, longest=5).split("train", 99)} == {5}
    with pytest.raises(UserError) as refusal:
        book(tokenizer, task, longest=4)
    assert str(refusal.value) == (
        "max_prompt_tokens   34 of 34 train prompts are longer than 4 tokens and prompts are never cut; "
        "say max_prompt_tokens=5"
    )
