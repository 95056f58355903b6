"""Ground of libraries beside us that nobody promised us is still where it was.

That of the hub's client: ``test_hub``.
"""

from __future__ import annotations

import pytest
import torch
from tokenizers import Regex, pre_tokenizers
from torch import Tensor, nn

from gpt2viz.model import compat as hub
from gpt2viz.model.network import Attend
from gpt2viz.run import compat as torch_ground


def test_a_panic_of_tokenizers_becomes_an_exception() -> None:
    slow = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    with pytest.raises(ValueError, match="retry-limit"), hub.panics():
        slow.pre_tokenize_str("a" * 40 + "b")
    with pytest.raises(KeyboardInterrupt), hub.panics():
        raise KeyboardInterrupt


def test_torch_calls_a_hook_that_was_put_in_by_hand() -> None:
    module, seen = nn.Linear(2, 3), list[tuple[int, ...]]()
    torch_ground.hook(module, lambda _module, _inputs, output: seen.append(tuple(output.shape)))
    module(torch.zeros(1, 2))
    torch_ground.unhook(module)
    module(torch.zeros(1, 2))
    torch_ground.unhook(module)  # where there is none
    assert seen == [(1, 3)]


def test_torch_says_which_tensors_share_memory() -> None:
    whole = torch.zeros(4, 6)
    assert torch_ground.share_memory(whole[:, :2], whole[:, 2:].T)
    assert not torch_ground.share_memory(whole, whole.clone())


def test_the_frame_that_called_a_module_is_found_behind_pytorchs() -> None:
    """The module's own method: one frame fewer would be PyTorch's, one more, the test's."""
    results: list[str] = []

    def line() -> None:
        frame = torch_ground.frame_of_model()
        assert frame is not None
        results.append(frame.f_code.co_qualname)

    def note(_module: nn.Module, _inputs: object, _output: Tensor) -> None:
        line()

    attend = Attend(1).eval()
    torch_ground.hook(attend.weights, note)
    with torch.inference_mode():
        attend(*(torch.zeros(1, 1, 2, 4) for _ in "qkv"), torch.zeros(2, 2, dtype=torch.bool))
    assert results == ["Attend.forward"]
