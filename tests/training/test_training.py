"""Training resumes from any step, never reads held-out text, and exports its checkpoints."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import safe_open

import gpt2viz
from gpt2viz.analysis.batch_scores import (
    attention_weights,
    batch_score,
    batch_scores,
    repeated_rows,
)
from gpt2viz.analysis.scores import SCORES, Scores
from gpt2viz.errors import GPT2VizError
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.model.network import GPT2
from gpt2viz.model.tokenizer import load_tokenizer
from gpt2viz.training import __main__ as command
from gpt2viz.training import checkpoint, evaluate
from gpt2viz.training.batches import SHORTEST_SPAN, UNSCORED, Stream, Text
from gpt2viz.training.checkpoint import SENTENCES, export, load_bpe, save_bpe, train_bpe
from gpt2viz.training.corpus import (
    SEPARATOR,
    CorpusError,
    known_runs,
    read_corpus,
    split_book,
    without_overlap,
)
from gpt2viz.training.held_out import write_held_out
from gpt2viz.training.pressure import ALIKE_FROM, alike_loss, nudge_loss, watch
from gpt2viz.training.recipe import Nudge, Phase, Recipe
from gpt2viz.training.train import MILESTONE, RUN, Trainer, batch_loss, new_network, optimizers
from tests.checkpoints import transformers_model
from tests.training.runs import RECIPE, held_out, stream, train


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn merges from fewer copies of the example sentences, to save time."""
    monkeypatch.setattr(checkpoint, "REPEATS", 40)


def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 8)
    broken = train(tmp_path / "broken", 2, 4, 8)
    for name, weight in whole.network.state_dict().items():
        assert_array_equal(broken.network.state_dict()[name], weight, err_msg=name)
    assert broken.curves == whole.curves
    assert [point["step"] for point in whole.curves] == [2, 4, 6, 8]


def test_run_from_a_milestone_equals_the_original(tmp_path: Path) -> None:
    """On another machine too: the file has the weights in float16 and no optimizer state."""
    recipe = replace(RECIPE, milestone=3, rewarm=2)
    whole = train(tmp_path / "whole", 5, recipe=recipe)
    with safe_open(tmp_path / "whole" / MILESTONE, "pt") as file:
        assert json.loads(file.metadata()[RUN])["step"] == 3
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert {weight.dtype for weight in stored.values()} == {torch.float16}
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "whole" / MILESTONE, tmp_path / "other")
    other = train(tmp_path / "other", 5, recipe=recipe)
    for name, weight in whole.network.state_dict().items():
        assert_array_equal(other.network.state_dict()[name], weight, err_msg=name)
    assert [recipe.rate(step) for step in (3, 4)] == [
        pytest.approx(min(1 / 2, 4 / recipe.warmup)),
        pytest.approx(min(1.0, 5 / recipe.warmup)),
    ]


def test_run_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(tmp_path, 2)
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        train(tmp_path, 2, recipe=replace(RECIPE, seed=1))


@pytest.mark.slow
def test_training_learns_a_repeating_text(tmp_path: Path) -> None:
    recipe = replace(RECIPE, phases=(Phase(120, 8, 16, 0.0),), points=(40, 80, 120))
    text = Text(np.tile(np.arange(100, 120), 100), np.arange(0, 2000, 20))
    trainer = Trainer(recipe, Stream(text, None, 600), held_out(), tmp_path)
    trainer.advance(120, lambda _line: None, every=40)
    losses = [point["train_loss"] for point in trainer.curves]
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < np.log(20)  # better than knowing the tokens without their order


def test_batches_depend_on_seed_and_step_alone() -> None:
    phase = Phase(1, 8, 24, 0.5)
    read, expected = stream().batch(phase, seed=3, step=7)
    assert read.shape == expected.shape == (8, 24)
    assert_array_equal((read, expected), stream().batch(phase, seed=3, step=7))
    assert (read != stream().batch(phase, seed=3, step=8)[0]).any()
    assert (read != stream().batch(phase, seed=4, step=7)[0]).any()
    scored = expected[:, :-1] != UNSCORED
    assert_array_equal(expected[:, :-1][scored], read[:, 1:][scored])  # the next token of each
    assert scored[:4].all()  # text
    assert not scored[4:, : SHORTEST_SPAN - 1].any()  # first occurrences


def test_repeated_rows_repeat_and_text_rows_are_text() -> None:
    source = stream()
    ids, message = source.repeats(20, 40, np.random.default_rng(0))
    for row, scored in zip(ids, message, strict=True):
        period = min(p for p in range(SHORTEST_SPAN, 21) if (row[p:] == row[:-p]).all())
        assert_array_equal(scored, np.arange(40) > period)
    text = source.own.windows(20, 10, np.random.default_rng(0), end=599)
    whole = source.own.ids.astype(np.int64).tobytes()
    assert all(row.tobytes() in whole for row in text[:15])
    assert all(row[1:].tobytes() in whole for row in text[15:])
    assert text[:, 0].tolist().count(599) == 5  # a quarter, before a paragraph


def test_rows_mix_both_corpora_by_the_phases_share() -> None:
    own = Text(np.zeros(500, np.uint16), np.arange(0, 500, 10))
    more = Text(np.ones(500, np.uint16), np.arange(0, 500, 10))
    rng = np.random.default_rng(0)
    rows = Stream(own, more, 600).text(4000, 8, 0.3, rng)
    assert (rows[:, -1] == 0).mean() == pytest.approx(0.3, abs=0.03)
    assert (Stream(own, None, 600).text(40, 8, 0.3, rng)[:, -1] == 0).all()


def test_unscored_tokens_are_ignored() -> None:
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
        assert abs(losses[:, 10:].mean() / losses.mean() - 1) > 2e-2  # else nothing is tested


def test_heads_have_no_habit_at_the_start() -> None:
    recipe = Recipe()
    ids = torch.from_numpy(np.random.default_rng(5).integers(0, recipe.vocab_size, (2, 256)))
    for weights in attention_weights(new_network(recipe), ids):
        assert score_of("previous token", weights, range(256)).max() < 0.1
        assert score_of("first token", weights, range(256)).max() < 0.1


def test_every_weight_learns(tmp_path: Path) -> None:
    start = new_network(RECIPE).state_dict()
    end = train(tmp_path, 8).network.state_dict()
    for name, before in start.items():
        changed = (end[name] != before).reshape(len(before), -1).any(dim=1)
        # tied embeddings: every token's logit moves; later positions aren't read
        assert changed.all() if name != "wpe.weight" else changed[: RECIPE.n_positions].all(), name


def test_every_weight_has_one_optimizer() -> None:
    network = new_network(RECIPE)
    result = optimizers(network, RECIPE)
    learned = [p for o in result for group in o.param_groups for p in group["params"]]
    assert len(learned) == len({id(p) for p in learned}) == len(list(network.parameters()))


def test_learning_rates_rise_stay_and_fall() -> None:
    recipe = Recipe()
    steps = np.arange(recipe.steps)
    rates = np.array([recipe.rate(step) for step in range(recipe.steps)])
    falls, rises, again = np.cumsum([phase.steps for phase in recipe.phases])[1:4]
    assert_allclose(rates[: recipe.warmup], (steps[: recipe.warmup] + 1) / recipe.warmup)
    after = rates[recipe.milestone : recipe.milestone + recipe.rewarm]
    assert_allclose(after, np.arange(1, recipe.rewarm + 1) / recipe.rewarm)
    settled = (steps >= recipe.warmup) & (
        (steps < recipe.milestone) | (steps % recipe.milestone >= recipe.rewarm)
    )
    assert set(rates[settled & (steps < falls)]) == {1.0}
    for start, end in ((falls, rises), (again, recipe.steps)):
        assert (np.diff(rates[settled & (start <= steps) & (steps < end)]) < 0).all()
    assert rates[rises - 1] == pytest.approx(recipe.phases[2].last_rate, abs=1e-3)
    assert rates[again - 1] == pytest.approx(recipe.phases[3].last_rate, rel=0.05)
    assert rates[-1] == pytest.approx(recipe.phases[-1].last_rate, abs=1e-3)


def test_run_resumes_with_longer_phases(tmp_path: Path) -> None:
    """If the recipe was the same so far, a run may stay longer at its highest rates."""
    first, middle, last = RECIPE.phases
    longer = replace(RECIPE, phases=(first, replace(middle, steps=30), last))
    train(tmp_path / "even", 5)
    assert train(tmp_path / "even", 7, recipe=longer).step == 7
    train(tmp_path / "falling", 7)  # at step 7 the rates have begun to fall
    for changed in (longer, replace(RECIPE, phases=(first, middle, replace(last, steps=9)))):
        with pytest.raises(GPT2VizError, match="another recipe"):
            train(tmp_path / "falling", 8, recipe=changed)


def test_nudge_may_be_added_before_its_start(tmp_path: Path) -> None:
    """A run may add a nudge before its first step, but not after."""
    late = Nudge(0, 1, "first token", steps=2, start=4)
    assert [late.is_active(step) for step in range(8)] == [4 <= step < 6 for step in range(8)]
    recipe = replace(RECIPE, nudges=(*RECIPE.nudges, late))
    train(tmp_path / "plain", 4)
    shutil.copytree(tmp_path / "plain", tmp_path / "nudged")
    plain, nudged = train(tmp_path / "plain", 5), train(tmp_path / "nudged", 5, recipe=recipe)
    assert (plain.network.wpe.weight != nudged.network.wpe.weight).any()
    with pytest.raises(GPT2VizError, match="another recipe"):
        train(tmp_path / "plain", 6, recipe=recipe)


def loss_of_nudge(habit: str, layer: int, head: int, read: np.ndarray) -> tuple[torch.Tensor, GPT2]:
    network = new_network(RECIPE)
    with watch(network) as captured:
        network(torch.from_numpy(read))
        return nudge_loss(captured, Nudge(layer, head, habit, 1), read), network


@pytest.mark.parametrize("habit", ["previous token", "duplicate token", "first token"])
def test_nudge_is_a_loss_of_one_heads_weights(habit: str) -> None:
    half = np.random.default_rng(0).integers(0, 600, (3, 8))
    read = np.concatenate([half, half], axis=1)
    loss, network = loss_of_nudge(habit, 1, 0, read)
    weights = attention_weights(network, torch.from_numpy(read))[1][:, 0]  # (B, T, T)
    rows, logs = np.arange(1, 16), []
    for row in weights:
        if habit == "previous token":
            logs += np.log(row[rows, rows - 1]).tolist()
        elif habit == "first token":
            logs += np.log(row[rows, 0]).tolist()
        else:
            logs += np.log(row[rows[7:], rows[7:] - 8]).tolist()
    assert loss.item() == pytest.approx(-np.mean(logs), rel=1e-3)
    loss.backward()
    C = RECIPE.n_embd
    gradient = network.get_parameter("h.1.attn.c_attn.weight").grad
    assert gradient is not None
    moved = gradient.abs().sum(dim=1) > 0  # (3 C,): the queries and keys of head 0 of 2
    assert_array_equal(
        moved.numpy(), np.resize([True, False], 6).repeat(C // 2) & (np.arange(3 * C) < 2 * C)
    )


def test_nudge_toward_a_score_without_targets_is_refused() -> None:
    with pytest.raises(ValueError, match="entropy has no targets"):
        loss_of_nudge("entropy", 0, 0, np.arange(6).reshape(1, 6))


def test_alike_loss_is_the_squared_excess_of_cosines() -> None:
    network = new_network(RECIPE)
    read = np.random.default_rng(0).integers(0, 600, (4, 16))
    with torch.no_grad():  # heads 0 and 1 of layer 0 become equal, no others
        for name in ("h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias"):
            weight, hs = network.get_parameter(name), RECIPE.n_embd // 2
            for start in (0, RECIPE.n_embd):
                weight[start + hs : start + 2 * hs] = weight[start : start + hs]
    with watch(network) as captured:
        network(torch.from_numpy(read))
        loss = alike_loss(captured, slice(1, 3))
    flat = np.concatenate(attention_weights(network, torch.from_numpy(read)), axis=1)[1:3, :, 1:]
    heads = flat.transpose(1, 0, 2, 3).reshape(4, -1).astype(np.float64)
    pairs = [(a, b) for a in range(4) for b in range(a)]
    cosines = [
        heads[a] @ heads[b] / np.linalg.norm(heads[a]) / np.linalg.norm(heads[b]) for a, b in pairs
    ]
    assert max(cosines) == pytest.approx(1)
    expected = sum(max(0.0, cosine - ALIKE_FROM) ** 2 for cosine in cosines)
    assert loss.item() == pytest.approx(expected, rel=1e-3)


def test_last_step_is_measured() -> None:
    assert Recipe().points[-1] == Recipe().steps
    assert 10 <= len(Recipe().points) <= 30


def test_phases_follow_each_other() -> None:
    recipe = Recipe()
    assert recipe.tokens_until(recipe.steps) == recipe.tokens
    assert recipe.phase_at(recipe.phases[0].steps - 1) is recipe.phases[0]
    assert recipe.phase_at(recipe.phases[0].steps) is recipe.phases[1]
    with pytest.raises(IndexError):
        recipe.phase_at(recipe.steps)


def test_end_of_every_book_is_held_out(tmp_path: Path) -> None:
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


def test_training_text_shares_no_13_words_with_held_out_text() -> None:
    held_out = ["One two three four five six seven eight nine ten eleven twelve thirteen fourteen."]
    shared = (
        'He said: "two, three, FOUR five six seven eight nine ten eleven twelve thirteen fourteen'
    )
    twelve = "three four five six seven eight nine ten eleven twelve thirteen fourteen"
    train = [f"A crane.\n{shared}\nate fish", f"{twelve}\nand steel"]
    assert without_overlap(train, held_out) == ("A crane.\nate fish", train[1])
    assert known_runs(held_out, train) == [(1, 2)]
    assert known_runs([twelve, *held_out], [shared]) == [(0, 0), (1, 2)]


def test_book_of_one_paragraph_is_split_inside_it() -> None:
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
def test_unusable_corpus_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        read_corpus(tmp_path / name)


def test_bpe_has_the_examples_as_whole_words(tmp_path: Path) -> None:
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


def test_too_little_text_for_a_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the text gives only .* tokens, not 5000"):
        train_bpe(["abc"], 5000, sentences=["abc"])


def test_export_is_loaded_by_transformers_and_gpt2viz(tmp_path: Path) -> None:
    network = new_network(RECIPE).half().float().eval()  # as stored in the file
    save_bpe(train_bpe(["words of text " * 50], 600), tmp_path)
    export(network, tmp_path)
    ids = torch.from_numpy(held_out())
    with torch.no_grad():
        expected = network(ids)
        assert_allclose(transformers_model(tmp_path)(ids).logits, expected, atol=1e-5)
    model = gpt2viz.load_model(tmp_path)
    assert_allclose(gpt2viz.trace(model, ids[0].tolist()).logits[0], expected[0], atol=1e-5)
    n_weights = sum(weight.numel() for weight in network.parameters())
    assert 2 * n_weights < (tmp_path / "model.safetensors").stat().st_size < 2 * n_weights + 10_000


def score_of(name: str, weights: np.ndarray, ids: Sequence[int]) -> Scores:
    """A score (nh,) of a batch whose rows are all the same text."""
    return batch_score(SCORES[name], weights, [ids] * len(weights))


def test_batch_scores_skip_texts_without_a_score(tiny: gpt2viz.Model) -> None:
    on_text = replace(SCORES["duplicate token"], measured_on="text")
    rows = torch.tensor([[5, 9, 5, 7], [5, 9, 6, 7], [5, 9, 7, 7]])  # no duplicates in the second
    result = batch_scores(tiny.network, {"text": rows}, [on_text])["duplicate token"]
    traces = [gpt2viz.trace(tiny, row).stage("weights", 1)[0] for row in rows[[0, 2]].tolist()]
    assert_allclose(result[1], (traces[0][:, 2, 0] + traces[1][:, 3, 2]) / 2, rtol=1e-5)
    nowhere = batch_scores(tiny.network, {"text": rows[1:2]}, [on_text])["duplicate token"]
    assert np.isnan(nowhere).all()


def test_probe_scores_only_repeats_of_the_second_half(tiny: gpt2viz.Model) -> None:
    """Token 5 is there twice in one half, which is chance and isn't scored."""
    rows = repeated_rows(600, 3, 4, seed=0)
    assert_array_equal(rows[:, :4], rows[:, 4:])
    row = [5, 9, 5, 7] * 2
    scores = [SCORES["duplicate token"], SCORES["induction"]]
    result = batch_scores(tiny.network, {"probe": torch.tensor([row])}, scores)
    weights = gpt2viz.trace(tiny, row).stage("weights", 2)[0]
    repeats, next_ones = weights[:, range(4, 8), range(4)], weights[:, range(4, 8), range(1, 5)]
    assert_allclose(result["duplicate token"][2], repeats.mean(axis=1), rtol=1e-5)
    assert_allclose(result["induction"][2], next_ones.mean(axis=1), rtol=1e-5)


def run_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, recipe: Recipe, every: str, **paths: str
) -> None:
    """Run the command with a recipe, from a corpus in the folder into its ``out``."""
    book = "\n".join(f"The crane number {n} ate {n * 7} fish by the river." for n in range(900))
    (folder / "books.txt").write_text(f"{book}\n{SEPARATOR}\n{book}", encoding="utf-8")
    monkeypatch.setattr(command, "Recipe", lambda: recipe)
    arguments = ["--threads", "1", "--every", every]
    for name, path in {"corpus": "books.txt", "out": "out", "work": "work", **paths}.items():
        arguments += [f"--{name}", str(folder / path)]
    monkeypatch.setattr(sys, "argv", ["training", *arguments])
    command.main()


@pytest.mark.slow
def test_command_trains_from_corpus_to_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(tmp_path, monkeypatch, RECIPE, "4")
    printed = capsys.readouterr().out
    assert "step 8/8" in printed
    assert "min left" in printed
    trace = gpt2viz.trace(gpt2viz.load_model(tmp_path / "out"), "A crane ate fish")
    assert len(trace.tokens) == 4
    curves = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert [point["step"] for point in curves["curves"]] == list(RECIPE.points)
    steps = {int(path.name.removeprefix("step-")) for path in (tmp_path / "out/steps").iterdir()}
    assert steps == set(RECIPE.points)
    last = gpt2viz.load_model(tmp_path / "out/steps/step-8").network.state_dict()
    earlier = gpt2viz.load_model(tmp_path / "out/steps/step-4").network.state_dict()
    for name, weight in gpt2viz.load_model(tmp_path / "out").network.state_dict().items():
        assert_array_equal(last[name], weight, err_msg=name)
        assert (earlier[name] != weight).any(), name


@pytest.mark.slow
def test_command_resumes_from_a_milestone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = replace(RECIPE, milestone=3, rewarm=2)
    train(tmp_path / "there", 5, recipe=recipe)
    run_command(tmp_path, monkeypatch, recipe, "1", milestone=f"there/{MILESTONE}")
    message = re.findall(r"step (\d)/8", capsys.readouterr().out)
    assert message == ["4", "5", "6", "7", "8"]


@pytest.mark.parametrize("main", [command.main, evaluate.main], ids=["training", "evaluate"])
def test_commands_report_errors_in_one_line(
    main: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", str(tmp_path / "out")] if main is command.main else ["--model", str(BUNDLED)]
    monkeypatch.setattr(sys, "argv", ["", "--corpus", str(tmp_path / "gone.txt"), *out])
    threads = ["--threads", "1", *(["--work", str(tmp_path)] if main is command.main else [])]
    sys.argv += threads
    with pytest.raises(SystemExit) as end:
        main()
    assert "can't be read as a corpus" in str(end.value.code)
