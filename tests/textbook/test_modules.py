"""The textbook's modules equal PyTorch's; properties of the variants, and their shapes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import gpt2viz
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.model.transformer import Transformer
from gpt2viz.run.hooks import network_graph
from gpt2viz.run.stages import STAGES
from gpt2viz.textbook import attention, embeddings, heads, mistakes, mlp, residual, sizes
from gpt2viz.textbook.diagram import edges, nodes
from gpt2viz.textbook.heads import (
    CausalAttention,
    MultiHeadAttention,
    SeparateHeads,
    ShapeError,
    SimplifiedAttention,
    TrainableAttention,
    separate,
)
from gpt2viz.textbook.tensors import normal, randomize
from tests.bundled import bundled_model
from tests.llama_checkpoints import FAMILIES, write_llama
from tests.numpy_llama import read, reference

pytestmark = pytest.mark.filterwarnings("error")


def draw(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(7))


def test_attention_steps_equal_pytorch() -> None:
    q, k, v = draw(3, 5, 4)
    for scaled, causal in ((True, False), (True, True), (False, False)):
        expected = F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=None if scaled else 1.0
        )
        assert_close(attention.attend(q, k, v, causal=causal, scaled=scaled).output, expected)
    x, w_q, w_k, w_v = draw(4, 3, 3)
    for part, w in zip(attention.qkv(x, w_q, w_k, w_v), (w_q, w_k, w_v), strict=True):
        assert_close(part, F.linear(x, w))


@pytest.mark.parametrize("bias", [False, True])
def test_single_heads_equal_pytorch(bias: bool) -> None:
    x = draw(2, 5, 6)
    expected = F.scaled_dot_product_attention(x, x, x, scale=1.0)
    assert_close(SimplifiedAttention()(x), expected)
    for kind, causal in ((TrainableAttention, False), (CausalAttention, True)):
        head = kind(6, 4, bias)
        q, k, v = (F.linear(x, m.weight, m.bias) for m in (head.query, head.key, head.value))
        assert_close(head(x), F.scaled_dot_product_attention(q, k, v, is_causal=causal))


@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention_equals_pytorch(bias: bool) -> None:
    x, later = draw(2, 9, 12), torch.ones(9, 9, dtype=torch.bool).triu(1)
    for nh in (1, 2, 3, 6):
        ours = MultiHeadAttention(12, nh, n_positions=9, bias=bias)
        theirs = nn.MultiheadAttention(12, nh, bias=True, batch_first=True)
        parts = (ours.query, ours.key, ours.value)
        with torch.no_grad():
            theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
            zero = torch.zeros(12)
            theirs.in_proj_bias.copy_(
                torch.cat([zero if p.bias is None else p.bias for p in parts])
            )
        theirs.out_proj.load_state_dict(ours.out.state_dict())
        expected, _ = theirs(x, x, x, attn_mask=later, need_weights=False)
        assert_close(ours(x), expected, atol=1e-5, rtol=1e-4)
        apart = separate(ours)
        assert isinstance(apart, SeparateHeads)
        assert len(apart.heads) == nh
        assert_close(apart(x), ours(x), atol=1e-6, rtol=1e-5)
        sizes = [sum(p.numel() for p in form.parameters()) for form in (apart, ours)]
        assert sizes[0] == sizes[1]


def test_shape_steps_refuse_an_indivisible_width() -> None:
    with pytest.raises(ShapeError, match=r"10 channels .* 3 heads"):
        heads.shape_steps(1, 4, 10, 3)


def test_activations_and_mlp_steps_equal_pytorch() -> None:
    x = torch.linspace(-6, 6, 241)
    for name, theirs in {
        "GELU (tanh)": nn.GELU(approximate="tanh"),
        "GELU (erf)": nn.GELU(),
        "ReLU": nn.ReLU(),
        "SiLU": nn.SiLU(),
    }.items():
        assert_close(mlp.CURVES[name](x), theirs(x), atol=1e-6, rtol=1e-5)
    x, weight, bias, back = draw(2), draw(8, 2), draw(8), draw(2, 8)
    widened, activated, output = mlp.walk(x, weight, bias, back)
    assert_close(widened, F.linear(x, weight, bias))
    assert_close(activated, F.gelu(widened), atol=1e-6, rtol=1e-5)
    assert_close(output, F.linear(activated, back))


def test_both_forms_of_the_mlp_equal_pytorch() -> None:
    x, gated = draw(3, 6), mlp.SwiGLU(6, 16)
    for bias in (False, True):
        part = mlp.FeedForward(6, "ReLU", bias)
        assert_close(part(x), nn.Sequential(part.widen, nn.ReLU(), part.back)(x))
        assert (part.widen.bias is not None) == bias
    expected = gated.down(F.silu(gated.gate(x)) * gated.up(x))
    assert_close(gated(x), expected, atol=1e-6, rtol=1e-5)
    assert mlp.swiglu_width(768) == 2048
    assert mlp.swiglu_width(100, multiple=64) == 320  # 266.7, rounded up
    plain = sum(p.numel() for p in mlp.FeedForward(768, bias=False).parameters())
    assert sum(p.numel() for p in mlp.SwiGLU(768, 2048).parameters()) == plain
    result = mlp.forms(768)
    assert result["form"] == ["MLP", "SwiGLU"]
    assert result["tables"] == [2, 3]
    assert result["channels inside"] == [4 * 768, 2048]
    assert result["parameters"] == [2 * 768 * 4 * 768, 3 * 768 * 2048] == [4_718_592] * 2
    assert result["comes out"] == ["(1, 768)"] * 2


def test_dropout() -> None:
    x = torch.full((10_000,), 3.0)
    result = mlp.drop(x, 0.25, training=True, seed=1)
    assert set(result.tolist()) == {0.0, 4.0}
    assert abs(float((result == 0).float().mean()) - 0.25) < 0.02
    assert torch.equal(mlp.drop(x, 0.25, training=False), x)
    assert torch.equal(mlp.drop(x, 0.25, True, seed=1), result)
    assert not torch.equal(mlp.drop(x, 0.25, True, seed=2), result)


def test_pre_and_post_norm() -> None:
    part, x = nn.Linear(8, 8), draw(3, 8)
    assert_close(residual.PreNorm(8, part)(x), x + part(F.layer_norm(x, (8,))))
    assert_close(residual.PostNorm(8, part)(x), F.layer_norm(x + part(x), (8,)))
    assert residual.growth("post-norm", 5)[1:] == pytest.approx([1] * 5, abs=1e-3)


def test_scaled_initial_weights_keep_the_stream_small() -> None:
    """2L independent additions add up like √(2L); scaling removes that factor."""
    plain = np.array([residual.stream_sizes(n, scaled=False)[-1] for n in (4, 16)])
    small = np.array([residual.stream_sizes(n, scaled=True)[-1] for n in (4, 16)])
    assert plain[1] / plain[0] == pytest.approx(2, rel=0.25)
    assert small[1] / small[0] == pytest.approx(1, rel=0.15)
    sizes = residual.stream_sizes(4, scaled=True)
    assert len(sizes) == 5
    assert sizes[0] == pytest.approx(0.02 * 2**0.5, rel=0.03)  # two embeddings add up


def test_parameter_counts_equal_the_models() -> None:
    """And as published: see ``test_examples``, E16 and E18."""
    small = GPT2Config(vocab_size=11, n_positions=7, n_embd=6, n_layer=3, n_head=2)
    odd = replace(small, n_inner=5, tie_word_embeddings=False)
    for config in (odd, *sizes.RELEASED.values()):
        assert sum(sizes.parts(config).values()) == sizes.count_parameters(config)


def test_embeddings() -> None:
    table, positions = draw(10, 3), draw(8, 3)
    assert torch.equal(
        embeddings.look_up(table, [3, 1, 3]), F.embedding(torch.tensor([3, 1, 3]), table)
    )
    x = draw(5, 3)
    assert_close(embeddings.add_positions(x, positions), x + positions[:5])


def test_draws_depend_on_the_seed() -> None:
    assert torch.equal(normal(3, 2, seed=5), normal(3, 2, seed=5))
    first, second = (randomize(nn.Linear(50, 80), seed=n) for n in (1, 2))
    assert not torch.equal(first.weight, second.weight)
    assert float(first.weight.detach().std()) == pytest.approx(50**-0.5, rel=0.1)
    assert not first.bias.any()


def test_mistakes_are_raised_and_explained() -> None:
    for mistake in mistakes.MISTAKES:
        kind, text = mistakes.message(mistake.made)
        assert kind, mistake.name
        assert bool(text) == (mistake.made is not mistakes.seven_heads)
        if mistake.caught is not None:
            with pytest.raises(gpt2viz.GPT2VizError, match=r"\d"):  # with given and expected sizes
                mistake.caught()
    assert mistakes.message(lambda: 1) == ("", "")


def test_diagram_matches_the_model(tiny: gpt2viz.Model) -> None:
    run = gpt2viz.trace(tiny, "A crane ate fish")
    result = nodes(tiny, run)
    modules = dict(tiny.network.named_modules())
    leaves = [name for name, module in modules.items() if not list(module.children())]
    assert [node.name for node in result] == leaves
    one_layer = [name for name in leaves if "h." not in name or name.startswith("h.1.")]
    assert [node.name for node in nodes(tiny, run, layer=1)] == one_layer
    shapes = {node.name: node.made.shape for node in result if node.made}
    assert shapes["h.2.attn.attend.weights"] == (1, 4, len(run.tokens), len(run.tokens))


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3"])
def test_arrows_of_the_diagram_match_the_reads(family: str, tmp_path: Path) -> None:
    """A change of one module's output, with all others fixed, affects only its readers."""
    config = GPT2Config(vocab_size=11, n_positions=6, n_embd=8, n_layer=2, n_head=2)
    network: Transformer = GPT2(config).eval()
    if family != "gpt2":
        network = gpt2viz.load_model(write_llama(tmp_path, **FAMILIES[family])).network
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=0.5)
    leaves = {name: part for name, part in network.named_modules() if not list(part.children())}

    def run(fixed: dict[str, Tensor], changed: str = "") -> dict[str, Tensor]:
        made: dict[str, Tensor] = {}

        def hook(name: str) -> Callable[..., Tensor]:
            def record_output(_module: nn.Module, _args: object, out: Tensor) -> Tensor:
                made[name] = out
                out = fixed.get(name, out)
                return out + torch.rand(out.shape) if name == changed else out

            return record_output

        hooks = [part.register_forward_hook(hook(name)) for name, part in leaves.items()]
        with torch.inference_mode():
            network(torch.tensor([[1, 2, 3, 4]]), explicit=True)
        for registered in hooks:
            registered.remove()
        return made

    plain = run({})
    reading = {
        (name, other)
        for name in leaves
        for other, out in run(plain, changed=name).items()
        if not torch.allclose(out, plain[other], atol=1e-5)
    }
    graph = network_graph(network)
    assert set(edges(range(network.config.n_layer), graph)) == reading


@pytest.mark.parametrize("name", FAMILIES)
def test_gated_mlp_is_computed_without_calling_modules(name: str, tmp_path: Path) -> None:
    model = gpt2viz.load_model(write_llama(tmp_path, **FAMILIES[name]))
    made = reference(read(tmp_path), model.tokenizer.encode("the cat sat"))
    stream = made["residual_mid"][1][-1].astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:  # a call would run hooks
        patch.setattr(type(model.network.layers[1].mlp), "forward", None)
        inside = mlp.gated_at(model, 1, stream)
    np.testing.assert_allclose(inside.output, made["mlp_output"][1][-1], atol=1e-5)


@pytest.mark.parametrize("text", ["A", "A crane ate fish"])
def test_shape_sheet_equals_the_runs_shapes(text: str) -> None:
    model = bundled_model()
    run = gpt2viz.trace(model, text)
    page = sizes.shape_sheet(model.config, "<stories>", len(run.token_ids))
    cells = [re.findall(r"<td>(.*?)</td>", line) for line in page.splitlines()]
    listed = [(row[2], row[3]) for row in cells if len(row) == 4]
    made = [record for record in run.tensors if record.layer in (None, 0)]
    expected = [(f"({', '.join(record.axes)})", str(tuple(record.shape))) for record in made]
    assert listed == expected
    assert "<stories>" not in page
    assert "<h1>Shapes of &lt;stories&gt;</h1>" in page


def test_every_axis_of_the_sheet_is_explained() -> None:
    page = sizes.shape_sheet(gpt2viz.GPT2Config(), "GPT-2 small", 4)
    for axis in {axis for stage in STAGES for axis in stage.axes} - {"1"}:
        assert f"<tr><td>{axis}</td>" in page
