"""Comparisons of two checkpoints over many texts equal NumPy and a plain loop."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz import ArgumentError, Model, SurveyError
from gpt2viz.analysis.model_changes import LOSSES, MEASURES, Pair, equal_words, rounding
from gpt2viz.analysis.restored import Restored, next_logits
from gpt2viz.cli import main
from gpt2viz.survey.changes import FALSE_DISCOVERIES, Changes, compare_models, smallest_rates
from gpt2viz.survey.documents import shards
from gpt2viz.survey.engines import Task, local, work
from gpt2viz.survey.sums import Sums
from tests.numpy_gpt2 import softmax
from tests.oracles import FAMILIES, Oracle, oracle, write_model

TEXTS = [
    "A crane ate fish. A crane lifted steel. A crane ate fish, and then it slept.",
    "The animal didn't cross the street because it was too tired; it was too tired.",
    "she'll say it's 42 degrees, they've said, and nobody believed what they had said",
    "Once upon a time a girl lived with her brother in a small house by the river.",
    "東京, مرحبا, 🦩🦩! A crane ate fish, and the street was too tired to cross.",
    "Every morning they went to the garden, looked for birds, and told their mother.",
]
IDS = [3, 17, 250, 17, 5, 99, 3, 17]


def with_noise(model: Model, size: float, seed: int = 1, only: str = "") -> Model:
    """The model with normal noise added to the weights whose names contain ``only``."""
    network, generator = copy.deepcopy(model.network), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if only in name:
                weight.add_(size * torch.randn(weight.shape, generator=generator))
    return replace(model, name="after", network=network, weight_files=None)


def expected(before: Oracle, after: Oracle, ids: list[int]) -> np.ndarray:
    """``MEASURES`` (4, L, nh) in NumPy: of the heads' additions, and of the rows of weights."""
    base, whole = before.run(ids, True), after.run(ids, True)
    streams = [base["embedding"], *base["residual_out"][:-1]]
    own = after.run(
        ids,
        True,
        becomes=lambda name, made: (
            streams[int(name.split(".")[1])] if name.startswith("residual_in.") else made
        ),
    )
    distances = []
    for run in (own, whole):
        outputs, patterns = [], []
        for n, stream in enumerate(streams):
            written_by = [
                np.einsum("htd,hdc->htc", r["head_output"][n], of.out_proj(n)[0])
                for r, of in ((base, before), (run, after))
            ]
            apart = np.linalg.norm(written_by[1] - written_by[0], axis=-1)
            outputs.append((apart / np.linalg.norm(stream, axis=-1)).mean(axis=-1))
            rows = np.abs(run["weights"][n] - base["weights"][n]).sum(axis=-1) / 2
            patterns.append(rows[:, 1:].mean(axis=-1))
        distances += [outputs, patterns]
    return np.array(distances)


def expected_loss(of: Oracle, ids: list[int]) -> float:
    """The mean loss of the second half."""
    half = len(ids) // 2
    predicted = softmax(of.run(ids, True)["logits"][half - 1 : -1])
    return float(-np.log(predicted[range(len(ids) - half), ids[half:]]).mean())


@pytest.mark.parametrize("family", FAMILIES)
def test_distances_equal_numpy(family: str, tmp_path: Path) -> None:
    folders = [write_model(tmp_path / str(seed), family, seed=seed) for seed in (0, 1)]
    before, after = (gpt2viz.load_model(folder) for folder in folders)
    config = before.config
    row = Pair.of(before, after).distances(torch.tensor([IDS, IDS[::-1]]))
    for numbers, ids in zip(row, (IDS, IDS[::-1]), strict=True):
        of = oracle(folders[0]), oracle(folders[1])
        distances = numbers[: -len(LOSSES)].reshape(len(MEASURES), config.n_layer, config.n_head)
        assert_allclose(distances, expected(of[0], of[1], ids), rtol=1e-4, atol=1e-5)
        assert_allclose(numbers[-len(LOSSES) :], [expected_loss(o, ids) for o in of], rtol=1e-5)


def compare(before: Model, after: Model, **options: object) -> Changes:
    return compare_models(before, after, TEXTS, n_tokens=12, **options)  # type: ignore[arg-type]


def test_means_and_intervals_equal_a_plain_loop(tiny: Model) -> None:
    after = with_noise(tiny, 0.02)
    changes = compare(tiny, after)
    pair, rows = Pair.of(tiny, after), list[np.ndarray]()
    for text in TEXTS:
        ids = tiny.tokenizer.encode(text)
        parts = [ids[n : n + 12] for n in range(0, len(ids), 12)]
        rows += [pair.distances(torch.tensor([part]))[0] for part in parts if len(part) >= 8]
    every = np.array(rows)
    assert (changes.n_passages, changes.n_documents) == (len(every), len(TEXTS))
    sizes = (len(MEASURES), tiny.config.n_layer, tiny.config.n_head)
    mean = every.mean(axis=0)
    for name, numbers in zip(MEASURES, mean[: -len(LOSSES)].reshape(sizes), strict=True):
        assert_allclose(changes.mean[name], numbers, rtol=1e-5)
        for head in changes.heads:
            low, high = head.moved[name].low, head.moved[name].high
            assert low < numbers[head.layer, head.head] < high
    assert_allclose([mean for mean, _ in changes.loss.values()], mean[-len(LOSSES) :], rtol=1e-5)
    own = [head.moved["own output"].mean for head in changes.heads]
    assert own == sorted(own, reverse=True)
    assert len(own) == sizes[1] * sizes[2]


def test_changed_weights_are_named_with_their_rank(tiny: Model) -> None:
    network = copy.deepcopy(tiny.network)
    weight = network.get_parameter("h.1.mlp.c_fc.weight")
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(n, 4, generator=generator) for n in weight.shape)
    with torch.no_grad():
        weight.add_(0.05 * left @ right.T)
    after = replace(tiny, name="low rank", network=network)
    changed = [weight for weight in compare(tiny, after).weights if weight.relative]
    before = dict(tiny.network.named_parameters())["h.1.mlp.c_fc.weight"].detach().numpy()
    relative = np.linalg.norm(weight.detach().numpy() - before) / np.linalg.norm(before)
    assert [(w.name, w.rank) for w in changed] == [("h.1.mlp.c_fc.weight", 4)]
    assert changed[0].relative == pytest.approx(float(relative), rel=1e-4)


def test_equal_parts_are_named_first(tiny: Model) -> None:
    copied = replace(tiny, name="same", network=copy.deepcopy(tiny.network))
    assert compare(tiny, copied).words() == f"{tiny.name} and same are bit for bit the same."
    after = with_noise(tiny, 0.05, only="h.1.mlp")
    changes = compare(tiny, after)
    same = "Bit for bit the same:"
    assert changes.words().startswith(f"{same} 2 layers (0, 2) and 4 heads of other layers (1.0, ")
    assert all(head.equal and not head.changed for head in changes.heads)
    assert not any(head.moved["own output"].mean for head in changes.heads)
    later = [h for h in changes.heads if h.layer > 1]
    assert later
    assert all(h.moved["output"].mean > 0 for h in later)
    with_one_head = equal_words(tiny, with_noise(plant_head(tiny, 1, 0, seed=0), 0.05, only="h.2"))
    assert with_one_head == f"{same} 1 layer (0) and 3 heads of other layers (1.1, 1.2, 1.3)."
    assert equal_words(tiny, with_noise(tiny, 0.05, only="mlp")) == f"{same} 12 heads."


def plant_head(model: Model, layer: int, head: int, seed: int, steps: int = 0) -> Model:
    """The model with one head changed: noise in its queries, and its output matrix alone trained on
    the texts for some steps."""
    network = copy.deepcopy(model.network)
    generator, hs = torch.Generator().manual_seed(seed), model.config.head_dim
    with torch.no_grad():
        W_Q, _ = network.blocks[layer].attention.input_weights("q", head)  # a view
        W_Q += 0.02 * torch.randn(W_Q.shape, generator=generator)
    writing = network.get_parameter(f"h.{layer}.attn.c_proj.weight")  # (C, nh · hs)
    own = (slice(None), slice(head * hs, (head + 1) * hs))
    writing.requires_grad_(bool(steps))
    for _ in range(steps):
        losses = []
        for text in TEXTS:
            ids = torch.tensor([model.tokenizer.encode(text)[:48]])
            losses.append(F.cross_entropy(network(ids[:, :-1])[0], ids[0, 1:]))
        (slope,) = torch.autograd.grad(torch.stack(losses).sum(), writing)
        with torch.no_grad():
            writing[own] -= 0.05 * slope[own]
    writing.requires_grad_(False)
    return replace(model, name="after", network=network, weight_files=None)


@pytest.mark.parametrize("seed", range(3))
def test_trained_head_is_first_and_restoring_it_undoes_the_change(model: Model, seed: int) -> None:
    layer, head = divmod(7 * seed + 3, model.config.n_head)
    changes = compare_models(model, plant_head(model, layer % 4, head, seed, steps=4), TEXTS)
    first = changes.heads[0]
    assert (first.layer, first.head) == (layer % 4, head)
    assert [head.changed for head in changes.heads] == [True] + [False] * 31
    restored = changes.restore()
    assert restored.pieces == ((layer % 4, head),)
    assert restored.undone[-1] >= 0.95
    text = changes.texts_of(layer % 4, head)[0]
    assert changes.texts[0] == text
    assert text.distance > 0
    assert text.text in TEXTS


def test_text_is_named_with_the_token_at_which_its_head_moved_most(tiny: Model) -> None:
    after = with_noise(tiny, 0.2, only="h.1.attn.c_proj.weight")
    text = compare(tiny, after).texts[0]
    old, new = (model.output_weights(1)[0][text.head].detach().numpy() for model in (tiny, after))
    run = gpt2viz.trace(tiny, text.text)
    wrote = np.linalg.norm(run.stage("head_output", 1, text.head) @ (new - old), axis=1)
    moved = wrote / np.linalg.norm(run.stage("residual_out", 0)[0], axis=1)
    assert text.query == moved.argmax()
    assert text.distance == pytest.approx(moved.max(), rel=1e-4)


def test_rounding_alone_changes_no_head(tiny: Model) -> None:
    """20 times, by real rounding to float16, which isn't the measured simulation."""
    listed = 0
    for seed in range(20):
        before = with_noise(tiny, 0.02, seed=seed)
        network = copy.deepcopy(before.network).half().float()
        after = replace(before, name="rounded", network=network)
        changes = compare_models(before, after, TEXTS, n_tokens=8)
        listed += any(head.changed for head in changes.heads)
        assert all(head.moved["own output"].mean > 0 for head in changes.heads)
    assert listed <= 2


def test_false_discovery_rate_equals_its_definition() -> None:
    """By Benjamini and Hochberg's own definition: the largest k with p(k) ≤ k q / m."""
    p = np.random.default_rng(0).uniform(size=(4, 10)) ** 3
    p[0, :3] = 1e-5
    ordered = np.sort(p.ravel())
    k = max(n for n in range(41) if n == 0 or ordered[n - 1] <= n * FALSE_DISCOVERIES / 40)
    listed = smallest_rates(p) <= FALSE_DISCOVERIES
    assert 3 <= k < 40
    assert listed.sum() == k
    assert set(p[listed]) == set(ordered[:k])
    p[1, 1] = np.nan
    assert np.isnan(smallest_rates(p)[1, 1])


def test_restored_pieces_use_the_weights_of_before(tiny: Model) -> None:
    """With equal norms this is the same as copying the weights."""
    after = with_noise(with_noise(tiny, 0.2, only="c_attn"), 0.2, seed=2, only="mlp.c_")
    restored = compare(tiny, after).restore(share=2.0)  # more than can be undone: all are restored
    assert len(restored.pieces) == tiny.config.n_layer * (tiny.config.n_head + 1)
    assert restored.undone[-1] == restored.all_back == pytest.approx(1, abs=1e-4)
    network, hs, C = copy.deepcopy(after.network), tiny.config.head_dim, tiny.config.n_embd
    sample = [tiny.tokenizer.encode(text)[:12] for text in TEXTS]
    shares = []
    for piece in (None, *restored.pieces):
        if piece is not None:
            layer, head = piece
            new, old = (net.blocks[layer] for net in (network, tiny.network))
            with torch.no_grad():
                if head is None:
                    new.mlp.load_state_dict(old.mlp.state_dict())
                else:
                    for part in range(3):
                        rows = slice(part * C + head * hs, part * C + (head + 1) * hs)
                        for name in ("weight", "bias"):
                            of = [x.attention.get_submodule("c_attn") for x in (new, old)]
                            getattr(of[0], name)[rows] = getattr(of[1], name)[rows]
        shares.append(mean_divergence(tiny, network, sample))
        back = restored.pieces[: len(shares) - 1]
        with torch.inference_mode():
            logits = network(torch.tensor([sample[0]]))[0, -1].numpy()
        assert_allclose(next_logits(tiny, after, sample[0], back), logits, atol=1e-4)
    assert_allclose(restored.undone, 1 - np.array(shares) / shares[0], atol=1e-4)
    assert all(np.diff(restored.undone[:2]) > 0)


def test_words_name_the_pieces_that_undo_most() -> None:
    pieces = ((0, 1), (2, None), *((3, n) for n in range(7)))
    some, none, first, many = (
        Restored(pieces, np.array(undone), 0.5)
        for undone in ([0, 0.2, 0.6, 0.1], [0, -0.2, -0.6, -0.1], [0, 0.9, 0.6, 0.1], range(10))
    )
    assert some.words() == (
        "2 heads and MLPs, put back, undo 60 % of the change in the answers: 0.1, MLP 2."
    )
    assert none.words().startswith("No head or MLP")
    assert first.words() == "0.1 alone, put back, undoes 90 % of the change in the answers."
    assert many.words().endswith(": 0.1, MLP 2, 3.0, 3.1, 3.2, 3.3, 3.4, 3.5 and 1 more.")


def mean_divergence(before: Model, network: torch.nn.Module, sample: list[list[int]]) -> float:
    """KL(before ‖ network) over all tokens of a sample, in bits, by NumPy."""
    total = []
    for ids in sample:
        with torch.inference_mode():
            logits = [net(torch.tensor([ids]))[0].numpy() for net in (before.network, network)]
        p, q = (softmax(row.astype(np.float64)) for row in logits)
        total += list((p * np.log2(p / q)).sum(axis=-1))
    return float(np.mean(total))


def test_models_that_cannot_be_compared_are_refused(tiny: Model, model: Model) -> None:
    with pytest.raises(ArgumentError, match="different sizes"):
        compare_models(tiny, model, TEXTS)
    with pytest.raises(ArgumentError, match="nothing to undo"):
        compare(tiny, replace(tiny, name="same")).restore()
    for texts, message in ((["A", "A crane"], "None of the texts has 8"), ([""], "^No text was")):
        with pytest.raises(SurveyError, match=message):
            compare_models(tiny, with_noise(tiny, 0.1), texts, n_tokens=12)


def test_document_of_one_token_is_skipped(tiny: Model) -> None:
    texts = [text for n in range(8) for text in ("A", TEXTS[n % 6])]
    changes = compare_models(tiny, with_noise(tiny, 0.1), texts, n_tokens=12)
    assert changes._sample == tuple(tuple(tiny.tokenizer.encode(t)[:12]) for t in texts[1::2])


def test_few_documents_list_no_head(tiny: Model) -> None:
    changes = compare_models(tiny, with_noise(tiny, 0.1), TEXTS[:4], n_tokens=12)
    assert "Fewer than five documents" in changes.words()
    assert not any(head.changed for head in changes.heads)
    assert all(np.isnan(head.moved["output"].low) for head in changes.heads)


def test_rounding_is_as_coarse_as_the_weights(tiny: Model) -> None:
    """bfloat16 keeps 8 bits of a number and float16 11, so its errors are eight times as large."""
    network = copy.deepcopy(tiny.network).bfloat16().float()
    coarse = replace(tiny, network=network)
    sample = [tuple(tiny.tokenizer.encode(text)[:20]) for text in TEXTS]
    fine, by_bfloat16 = (rounding(*pair, sample) for pair in ((tiny, tiny), (coarse, tiny)))
    own = slice(0, tiny.config.n_layer * tiny.config.n_head)
    assert 4 < np.median(by_bfloat16[own] / fine[own]) < 16


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two checkpoints, and a corpus of a file for each document."""
    root = tmp_path_factory.mktemp("changes")
    corpus = root / "corpus"
    corpus.mkdir()
    for n, text in enumerate(TEXTS):
        (corpus / f"{n}.txt").write_text(text, encoding="utf-8")
    return write_model(root / "a", "gpt2", seed=0), write_model(root / "b", "gpt2", seed=1), corpus


def test_command_resumes(
    folders: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after, corpus = folders
    monkeypatch.setattr("gpt2viz.survey.run.shards", lambda path: shards(path, size=100))
    given = ["changes", str(before), str(after), "-c", str(corpus), "--tokens", "12"]
    given += ["--workers", "1", "--out", str(tmp_path / "out")]
    whole = CliRunner().invoke(main, [*given, "--json"])
    assert whole.exit_code == 0, whole.output
    first = json.loads(whole.stdout)
    assert {row["head"] for row in first["heads"]} == {0, 1, 2, 3}
    written_files = sorted(path.name for path in (tmp_path / "out").iterdir())
    shard = [name for name in written_files if name.startswith("shard")]
    assert len(shard) > 1
    assert [n for n in written_files if n not in shard] == [
        "changes.json", *(f"{n}.{kind}" for n in ("heads", "texts", "weights") for kind in
                          ("csv", "parquet")),
    ]  # fmt: skip
    (tmp_path / "out" / shard[0]).unlink()
    text = CliRunner().invoke(main, [*given, "--restore", "0.5", "--top", "3"])
    assert text.exit_code == 0
    assert "put back" in text.stdout
    assert json.loads(CliRunner().invoke(main, [*given, "--json", "-q"]).stdout) == first
    other = CliRunner().invoke(main, [*given[:2], str(before), *given[3:]])
    assert other.exit_code == 1
    assert "Choose another folder" in other.stderr


def test_finished_shards_need_the_same_parameters(
    folders: tuple[Path, Path, Path], tiny: Model, tmp_path: Path
) -> None:
    read, first = gpt2viz.load_model(folders[0]), with_noise(tiny, 0.1)
    compare(read, first, out=tmp_path)
    compare(copy.deepcopy(read), first, out=tmp_path)
    with torch.no_grad():
        read.network.get_parameter("h.1.ln_1.bias")[3] += 0.5
    for pair in ((tiny, with_noise(tiny, 0.2)), (read, first)):
        with pytest.raises(SurveyError, match="Choose another folder"):
            compare(*pair, out=tmp_path)


def pickled_work(tasks: Iterable[Task]) -> Iterator[tuple[int, Sums]]:
    """Work as in another process or machine, with everything pickled: see ``test_survey``."""
    for task in tasks:
        yield pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task)))))  # noqa: S301


def test_another_process_gives_the_same_bytes(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    before, after, corpus = folders
    for name, engine in (("here", local(1)), ("there", pickled_work)):
        out = str(tmp_path / name)
        compare_models(before, after, str(corpus), n_tokens=12, out=out, engine=engine)
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes()
