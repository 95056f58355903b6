"""Training can be cut off anywhere, never reads what it is measured on, and exports what it has."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from transformers import GPT2LMHeadModel

import gpt2viz
from gpt2viz.checkpoint import BUNDLED
from gpt2viz.tokenizer import load_tokenizer
from gpt2viz.training import __main__ as command
from gpt2viz.training import evaluate
from gpt2viz.training.batches import SHORTEST_SPAN, UNSCORED, Stream
from gpt2viz.training.bpe import SENTENCES, load_bpe, save_bpe, train_bpe
from gpt2viz.training.corpus import SEPARATOR, CorpusError, read_corpus, split_book
from gpt2viz.training.export import export
from gpt2viz.training.held_out import write_held_out
from gpt2viz.training.recipe import Phase, Recipe
from gpt2viz.training.scores import (
    attention_weights,
    first_token_score,
    induction_score,
    previous_token_score,
    repeated_rows,
)
from gpt2viz.training.start import new_network
from gpt2viz.training.train import STATE, Trainer, batch_loss, optimizers
from tests.training.runs import RECIPE, held_out, stream, trained


def test_a_run_cut_off_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", 8)
    broken = trained(tmp_path / "broken", 2, 4, 8)
    for name, weight in whole.network.state_dict().items():
        assert_array_equal(broken.network.state_dict()[name], weight, err_msg=name)
    assert broken.curves == whole.curves
    assert [point["step"] for point in whole.curves] == [2, 4, 6, 8]


def test_a_kill_while_saving_leaves_the_state_before(tmp_path: Path) -> None:
    trained(tmp_path, 4)
    (tmp_path / f"{STATE}.partial").write_bytes(b"half a file")
    assert Trainer(RECIPE, stream(), held_out(), tmp_path).step == 4


def test_a_folder_of_another_recipe_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, 2)
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        trained(tmp_path, 2, recipe=replace(RECIPE, seed=1))


def test_training_learns_a_text_that_goes_round(tmp_path: Path) -> None:
    recipe = replace(RECIPE, phases=(Phase(120, 8, 16, 0.0),), points=(40, 80, 120))
    round_text = Stream(np.tile(np.arange(100, 120), 100), np.arange(0, 2000, 20), 600)
    trainer = Trainer(recipe, round_text, held_out(), tmp_path)
    trainer.advance(120, lambda _line: None, every=40)
    losses = [point["train_loss"] for point in trainer.curves]
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < np.log(20)  # less than knowing the tokens, but not their order


def test_batches_depend_on_seed_and_step_alone() -> None:
    phase = Phase(1, 8, 24, 0.5)
    read, expected = stream().batch(phase, seed=3, step=7)
    assert read.shape == expected.shape == (8, 24)
    assert_array_equal((read, expected), stream().batch(phase, seed=3, step=7))
    assert (read != stream().batch(phase, seed=3, step=8)[0]).any()
    assert (read != stream().batch(phase, seed=4, step=7)[0]).any()
    scored = expected[:, :-1] != UNSCORED
    assert_array_equal(expected[:, :-1][scored], read[:, 1:][scored])  # what follows each token
    assert scored[:4].all()  # text
    assert not scored[4:, : SHORTEST_SPAN - 1].any()  # first sayings


def test_repeated_rows_repeat_and_text_rows_are_text() -> None:
    source = stream()
    ids, told = source.repeats(20, 40, np.random.default_rng(0))
    for row, scored in zip(ids, told, strict=True):
        period = min(p for p in range(SHORTEST_SPAN, 21) if (row[p:] == row[:-p]).all())
        assert_array_equal(scored, np.arange(40) > period)
    text = source.windows(20, 10, np.random.default_rng(0))
    whole = source.ids.tobytes()
    assert all(row.tobytes() in whole for row in text)


def test_unscored_tokens_count_neither_way() -> None:
    network, cpu = new_network(RECIPE), torch.device("cpu")
    read = np.arange(40).reshape(2, 20)
    expected = np.roll(read, -1, axis=1)
    expected[:, 10:] = read[:, 10:]  # tied weights make a token's own return likelier
    half = np.where(np.arange(20) < 10, UNSCORED, expected)
    with torch.no_grad():
        network.wte.weight *= 3
        losses = torch.nn.functional.cross_entropy(
            network(torch.from_numpy(read)).transpose(1, 2),
            torch.from_numpy(expected),
            reduction="none",
        )
        assert_allclose(batch_loss(network, read, half, cpu), losses[:, 10:].mean(), rtol=1e-2)
        assert abs(losses[:, 10:].mean() / losses.mean() - 1) > 2e-2  # the test can tell


def test_one_head_looks_back_from_the_start() -> None:
    recipe = Recipe()
    ids = torch.from_numpy(np.random.default_rng(5).integers(0, recipe.vocab_size, (2, 256)))
    scores = np.array(
        [previous_token_score(w) for w in attention_weights(new_network(recipe), ids)]
    )
    assert scores[0, 0] > 0.95
    scores[0, 0] = 0
    assert scores.max() < 0.1  # and no other does


def test_every_weight_learns_but_the_set_heads_queries_and_keys(tmp_path: Path) -> None:
    start = new_network(RECIPE).state_dict()
    end = trained(tmp_path, 8).network.state_dict()
    C, hs = RECIPE.n_embd, RECIPE.n_embd // RECIPE.n_head
    for name, before in start.items():
        changed = (end[name] != before).reshape(len(before), -1).any(dim=1)
        if name.startswith("h.0.attn.c_attn."):
            kept = torch.zeros(3 * C, dtype=torch.bool)
            kept[:hs] = kept[C : C + hs] = True
            assert_array_equal(changed, ~kept, err_msg=name)
        elif name == "wte.weight":
            assert changed.all()  # tied: every token's logit moves
        else:
            assert changed.any(), name


def test_the_network_learns_slowly_what_the_set_head_reads() -> None:
    network = new_network(RECIPE)
    muon, adam = optimizers(network, RECIPE)
    learned = [p for o in (muon, adam) for group in o.param_groups for p in group["params"]]
    assert len(learned) == len({id(p) for p in learned}) == len(list(network.parameters()))
    usual, slow = adam.param_groups
    assert slow["params"][0] is network.wpe.weight
    assert slow["lr"] == RECIPE.slow_share * usual["lr"]


def test_rates_rise_and_fall() -> None:
    recipe = Recipe()
    rates = [recipe.rate(step) for step in range(recipe.steps)]
    assert rates[0] == pytest.approx(1 / recipe.warmup)
    assert max(rates) == rates[recipe.warmup] == 1
    assert rates[-1] == pytest.approx(recipe.floor, abs=1e-3)
    assert rates[recipe.warmup :] == sorted(rates[recipe.warmup :], reverse=True)


def test_the_last_step_is_measured() -> None:
    assert Recipe().points[-1] == Recipe().steps
    assert 10 <= len(Recipe().points) <= 20


def test_phases_follow_each_other() -> None:
    recipe = Recipe()
    assert recipe.tokens_until(recipe.steps) == recipe.tokens
    assert recipe.phase_at(recipe.phases[0].steps - 1) is recipe.phases[0]
    assert recipe.phase_at(recipe.phases[0].steps) is recipe.phases[1]
    with pytest.raises(IndexError):
        recipe.phase_at(recipe.steps)


def test_the_end_of_every_book_is_held_out(tmp_path: Path) -> None:
    books = ["\n".join(f"Book {b}, line {n}." for n in range(200)) for b in range(3)]
    path = tmp_path / "books.txt.xz"
    path.write_bytes(lzma.compress(f"\n{SEPARATOR}\n".join(books).encode()))
    corpus = read_corpus(path)
    assert len(corpus.train) == len(corpus.held_out) == 3
    for book, head, tail in zip(books, corpus.train, corpus.held_out, strict=True):
        assert head + tail == book
        assert 0.02 <= len(tail) / len(book) < 0.04
        assert head.endswith("\n")
        assert not set(tail.splitlines()) & set(head.splitlines())
    written = write_held_out(path, tmp_path / "held_out")
    assert tuple(file.read_text(encoding="utf-8") for file in written) == corpus.held_out
    with pytest.raises(CorpusError, match="holds texts already"):
        write_held_out(path, tmp_path / "held_out")


def test_a_book_of_one_paragraph_is_cut_in_place() -> None:
    assert split_book("x" * 100) == ("x" * 98, "x" * 2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.txt", None, "can't be read as a corpus"),
        ("broken.txt.xz", b"no xz", "can't be read as a corpus"),
        ("latin.txt", "naïve".encode("latin-1"), "can't be read as a corpus"),
        ("empty.txt", b" \n", "holds no text"),
    ],
)
def test_a_corpus_that_cannot_be_used(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        read_corpus(tmp_path / name)


def test_the_bpe_has_the_examples_as_whole_words(tmp_path: Path) -> None:
    tokenizer = train_bpe(["A few words of text. " * 50], 640)
    save_bpe(tokenizer, tmp_path)
    vocab = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    assert sorted(vocab.values()) == list(range(640))
    assert vocab[SEPARATOR] == 639
    again = load_bpe(tmp_path)
    ours = load_tokenizer(tmp_path)
    for sentence in SENTENCES:
        ids = tokenizer.encode(sentence).ids
        assert again.encode(sentence).ids == ours.encode(sentence) == ids
    crane = tokenizer.encode("A crane ate fish").tokens
    assert crane == ["A", "Ġcrane", "Ġate", "Ġfish"]


def test_too_little_text_for_a_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"the text gives only .* tokens, not 5000"):
        train_bpe(["abc"], 5000, sentences=["abc"])


def test_the_export_is_a_checkpoint_for_transformers_and_for_us(tmp_path: Path) -> None:
    network = new_network(RECIPE).half().float().eval()  # as the file will hold it
    save_bpe(train_bpe(["words of text " * 50], 600), tmp_path)
    export(network, tmp_path)
    ids = torch.from_numpy(held_out())
    with torch.no_grad():
        expected = network(ids)
        theirs = GPT2LMHeadModel.from_pretrained(tmp_path, attn_implementation="eager")
        assert_allclose(theirs.float().eval()(ids).logits, expected, atol=1e-5)
    model = gpt2viz.load_model(tmp_path)
    assert_allclose(gpt2viz.trace(model, ids[0].tolist()).logits[0], expected[0], atol=1e-5)
    n_weights = sum(weight.numel() for weight in network.parameters())
    assert 2 * n_weights < (tmp_path / "model.safetensors").stat().st_size < 2 * n_weights + 10_000


def one_hot(look: np.ndarray) -> np.ndarray:
    """Weights (1, 2, T, T): head 0 looks at ``look`` (T,), head 1 always elsewhere."""
    T = len(look)
    weights = np.zeros((1, 2, T, T), np.float32)
    weights[0, 0, np.arange(T), look] = 1
    weights[0, 1, np.arange(T), np.where(look == 2, 3, 2)] = 1
    return weights


def test_scores_of_heads_built_by_hand() -> None:
    T = np.arange(8)
    assert_array_equal(previous_token_score(one_hot(np.maximum(T - 1, 0)))[0], 1)
    assert_array_equal(first_token_score(one_hot(np.zeros(8, int))), [1, 0])
    # Four tokens said twice: query 4 repeats token 0, whose next is 1.
    assert_array_equal(induction_score(one_hot(np.maximum(T - 3, 0)), period=4)[0], 1)
    assert_array_equal(previous_token_score(one_hot(np.zeros(8, int)))[0], 1 / 7)
    assert_array_equal(induction_score(one_hot(T), period=4)[0], 0)
    rows = repeated_rows(600, 3, 4, seed=0)
    assert_array_equal(rows[:, :4], rows[:, 4:])


def test_the_command_from_corpus_to_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    book = "\n".join(f"The crane number {n} ate {n * 7} fish by the river." for n in range(900))
    (tmp_path / "books.txt").write_text(f"{book}\n{SEPARATOR}\n{book}", encoding="utf-8")
    monkeypatch.setattr(command, "Recipe", lambda: RECIPE)
    names = ["--corpus", "books.txt", "--out", "out", "--work", "work", "--every", "4"]
    paths = [str(tmp_path / n) if not n.startswith("-") and n != "4" else n for n in names]
    monkeypatch.setattr(sys, "argv", ["training", *paths, "--threads", "1"])
    command.main()
    printed = capsys.readouterr().out
    assert "step 8/8" in printed
    assert "min left" in printed
    trace = gpt2viz.trace(gpt2viz.load_model(tmp_path / "out"), "A crane ate fish")
    assert len(trace.tokens) == 4
    curves = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert [point["step"] for point in curves["curves"]] == list(RECIPE.points)


@pytest.mark.parametrize("main", [command.main, evaluate.main], ids=["training", "evaluate"])
def test_a_command_says_in_one_line_what_is_wrong(
    main: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", str(tmp_path / "out")] if main is command.main else ["--model", str(BUNDLED)]
    monkeypatch.setattr(sys, "argv", ["", "--corpus", str(tmp_path / "gone.txt"), *out])
    threads = ["--threads", "1", *(["--work", str(tmp_path)] if main is command.main else [])]
    sys.argv += threads
    with pytest.raises(SystemExit) as end:
        main()
    assert "can't be read as a corpus" in str(end.value.code)


def test_a_folder_of_another_run_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = "\n".join(f"The crane number {n} ate {n * 7} fish by the river." for n in range(900))
    (tmp_path / "books.txt").write_text(book, encoding="utf-8")
    trained(tmp_path / "work", 2, recipe=replace(RECIPE, seed=1))
    monkeypatch.setattr(command, "Recipe", lambda: RECIPE)
    paths = ["--corpus", "books.txt", "--out", "out", "--work", "work"]
    paths = [part if part.startswith("-") else str(tmp_path / part) for part in paths]
    monkeypatch.setattr(sys, "argv", ["training", *paths, "--threads", "1"])
    with pytest.raises(SystemExit) as end:
        command.main()
    assert "holds a run of another recipe" in str(end.value.code)
