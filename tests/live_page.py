"""The page that runs a model, opened from a file in Chromium, compared with NumPy.

``make test`` compares some of ``SENTENCES``, and the tokens generated after a few. All of them,
with and without the mask and with ten tokens generated after each, take 39 minutes:

    python -m tests.live_page
"""

from __future__ import annotations

import json
import tempfile
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from playwright.sync_api import Page, sync_playwright
from safetensors.numpy import save_file

import gpt2viz
from gpt2viz.analysis.top_attention import TopAttention, strongest_links
from gpt2viz.app.frame.examples import EXAMPLES
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.model.packed import pack
from gpt2viz.model.weights import CONV1D
from gpt2viz.notebook import live_page
from gpt2viz.run.stages import STAGE
from tests.browser.conftest import FLAGS, find_chromium
from tests.model.test_tokenizer import TEXTS
from tests.numpy_gpt2 import reference, softmax

WORDS = (BUNDLED / "sample.txt").read_text(encoding="utf-8").split()
SCRIPTS = [text for text in TEXTS if text]
#: The examples of the app and of the page; ten scripts, emoji and code, alone and joined in pairs;
#: passages of stories, from one word to 190; and the longest text.
SENTENCES = [
    *(example.text for example in EXAMPLES),
    *live_page.EXAMPLES,
    *SCRIPTS,
    *(" ".join(pair) for step in (1, 5, 7) for pair in zip(SCRIPTS, SCRIPTS[step:], strict=False)),
    *(" ".join(WORDS[start : start + n + 1]) for n, start in enumerate(range(0, 1034, 11))),
    *(" ".join(WORDS[n : n + count]) for n, count in enumerate(range(90, 191, 10))),
    *(" ".join(["a"] * count) for count in (1, 2, 256)),
]

# Instead of drawing, the page's start returns what it has made, with the functions that it calls.
_DRAWS = "  listen(view)\n  await read(view)\n"
_GIVES = "  return { ...view, forward, predict, continuation, likeliest, strongestLinks }\n"
_RUN = """
async ({ text, causal, tokens, stages }) => {
  const { own } = window, ids = own.encode(text), after = []
  const run = own.forward(own.model, ids, { causal }), probabilities = own.predict(own.model, run)
  if (tokens)
    for (const id of own.continuation(own.model, ids, causal)) if (after.push(id) === tokens) break
  const numbers = run.layers.flatMap(({ heads }) =>
    heads.flatMap((head) => stages.map((stage) => head[stage])))
  const reader = new FileReader()
  await new Promise((done) => {
    reader.onload = done
    reader.readAsDataURL(new Blob(numbers))
  })
  return { ids, after, text: own.decode(ids), links: own.strongestLinks(run.layers, ids.length),
    likeliest: own.likeliest(probabilities, 5).map(({ id }) => id),
    probabilities: [...probabilities], numbers: reader.result.split(",")[1] }
}
"""


def rounded(model: gpt2viz.Model, folder: Path, out: Path) -> Path:
    """Write a checkpoint with the rounded weights that a model's page has; return its folder."""
    network = pack(model, live_page._vocabulary(model)["letters"]).model.network
    tensors = {
        name: np.ascontiguousarray(w.numpy().T if name.endswith(CONV1D) else w.numpy())
        for name, w in network.state_dict().items()
    }
    out.mkdir()
    save_file(tensors, out / "model.safetensors")
    (out / "config.json").write_bytes((folder / "config.json").read_bytes())
    return out


class LivePage:
    """A model's page, open in Chromium, and NumPy with the same weights to compare it with."""

    def __init__(self, page: Page, folder: Path, out: Path) -> None:
        self.page, self.folder, self.model = page, folder, gpt2viz.load_model(folder)
        self.of_page = rounded(self.model, folder, out / "rounded")
        self.file = gpt2viz.write_page(self.model, out / "attention.html", "ate fish")
        page.goto(self.file.as_uri())
        page.wait_for_selector("html[data-ready]")
        code = page.locator("script").last.evaluate("script => script.text")
        assert code.count(_DRAWS) == 1
        code = code.replace(_DRAWS, _GIVES)
        code, call = code[: code.rindex("start(document")], "await start(document, {})"
        page.evaluate(f"async () => {{ {code}\nwindow.own = {call} }}")

    def check(self, text: str, *, causal: bool, tokens: int) -> float:
        """Compare everything computed for a text, and the ``tokens`` generated after it.

        Returns the largest change of a next token's probability by rounding the weights.
        """
        given = {"text": text, "causal": causal, "tokens": tokens, "stages": live_page._STAGES}
        answer: dict[str, Any] = self.page.evaluate(_RUN, given)
        ids: list[int] = answer["ids"]
        assert ids == self.model.tokenizer.encode(text)
        assert answer["text"] == text
        expected = reference(self.of_page, ids, causal)
        self._compare_heads(text, answer, expected)
        self._compare_links(answer, expected["weights"])
        after = softmax(expected["logits"][-1])
        assert_allclose(answer["probabilities"], after, atol=1e-4)
        likeliest = np.argsort(-np.asarray(answer["probabilities"]), kind="stable")[:5]
        assert answer["likeliest"] == likeliest.tolist()
        assert len(answer["after"]) == min(tokens, self.model.config.n_positions + 1 - len(ids))
        if tokens:
            whole = [*ids, *answer["after"][:-1]]
            for next_id, logits in zip(
                answer["after"], self._after(ids, whole, causal), strict=True
            ):
                assert logits[next_id] >= logits.max() - 1e-3, text
        own = softmax(reference(self.folder, ids, causal)["logits"][-1])
        return float(np.abs(after - own).max())

    def _after(self, ids: list[int], whole: list[int], causal: bool) -> list[np.ndarray]:
        """The logits after some ids, and after each of those that follow them in the ``whole``."""
        if causal:
            return list(reference(self.of_page, whole, causal)["logits"][len(ids) - 1 :])
        ends = range(len(ids), len(whole) + 1)
        return [reference(self.of_page, whole[:end], causal)["logits"][-1] for end in ends]

    def _compare_heads(self, text: str, answer: dict[str, Any], expected: dict[str, Any]) -> None:
        """Every stage of every head, within 1e-4."""
        config, stages = self.model.config, live_page._STAGES
        T, hs = len(answer["ids"]), config.n_embd // config.n_head
        shapes = [(T, T if STAGE[key].of_pairs else hs) for key in stages]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        numbers = np.frombuffer(b64decode(answer["numbers"]), "<f4")
        of_heads = numbers.reshape(config.n_layer, config.n_head, ends[-1])
        for key, shape, part in zip(stages, shapes, np.split(of_heads, ends[:-1], -1), strict=True):
            exact = np.stack(expected[key])
            made = part.reshape(*of_heads.shape[:2], *shape)
            assert_allclose(made, exact, rtol=1e-5, atol=1e-4, err_msg=f"{key} of {text}")

    def _compare_links(self, answer: dict[str, Any], weights: list[np.ndarray]) -> None:
        """The strongest links of each token; of almost equal weights, either may win."""
        keys, most = zip(*map(strongest_links, weights), strict=True)
        links, n_head = TopAttention(np.stack(keys), np.stack(most)), self.model.config.n_head
        both = zip(answer["links"], links.strongest_of_each, strict=True)
        for query, (made, exact) in enumerate(both):
            for (head, key, weight), look in zip(made, exact, strict=True):
                own = weights[head // n_head][head % n_head, query, key]
                assert_allclose([own, float(weight)], [look.weight, own], atol=0.0051)
                if abs(own - look.weight) > 1e-5:
                    raise AssertionError(f"{look} is not {head}, {key}")


def main() -> None:
    """Compare all sentences, and print the largest change of a probability by rounding."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        context = browser.new_context(offline=True)
        live, start = LivePage(context.new_page(), BUNDLED, Path(folder)), time.monotonic()
        lengths = [len(live.model.tokenizer.encode(text)) for text in SENTENCES]
        moved = {
            causal: max(live.check(text, causal=causal, tokens=10) for text in SENTENCES)
            for causal in (True, False)
        }
        browser.close()
    print(f"{len(SENTENCES)} sentences of {min(lengths)} to {max(lengths)} tokens match NumPy.")
    print("Rounding moves a probability by at most", json.dumps(moved))
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
