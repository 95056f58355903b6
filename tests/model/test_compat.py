"""Private parts of other libraries still behave as expected.

Those of the hub's client are tested in ``test_hub``.
"""

from __future__ import annotations

import pytest
import torch
from tokenizers import Regex, pre_tokenizers
from torch import Tensor, nn

from gpt2viz.model import compat as model_compat
from gpt2viz.model.network import Attend
from gpt2viz.run import compat as torch_compat


def test_tokenizers_panic_becomes_an_exception() -> None:
    slow = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    with pytest.raises(ValueError, match="retry-limit"), model_compat.panics():
        slow.pre_tokenize_str("a" * 40 + "b")
    with pytest.raises(KeyboardInterrupt), model_compat.panics():
        raise KeyboardInterrupt


def test_hook_is_called_until_it_is_removed() -> None:
    module, seen = nn.Linear(2, 3), list[tuple[int, ...]]()
    torch_compat.hook(module, lambda _module, _inputs, output: seen.append(tuple(output.shape)))
    module(torch.zeros(1, 2))
    torch_compat.unhook(module)
    module(torch.zeros(1, 2))
    torch_compat.unhook(module)  # where there is none
    assert seen == [(1, 3)]


def test_share_memory_recognises_views() -> None:
    whole = torch.zeros(4, 6)
    assert torch_compat.share_memory(whole[:, :2], whole[:, 2:].T)
    assert not torch_compat.share_memory(whole, whole.clone())


def test_frame_of_model_skips_pytorchs_frames() -> None:
    """The frame is the module's own: one below is PyTorch's, one above the test's."""
    results: list[str] = []

    def line() -> None:
        frame = torch_compat.frame_of_model()
        assert frame is not None
        results.append(frame.f_code.co_qualname)

    def note(_module: nn.Module, _inputs: object, _output: Tensor) -> None:
        line()

    attend = Attend(1).eval()
    torch_compat.hook(attend.weights, note)
    with torch.inference_mode():
        attend(*(torch.zeros(1, 1, 2, 4) for _ in "qkv"), torch.zeros(2, 2, dtype=torch.bool))
    assert results == ["Attend.forward"]
