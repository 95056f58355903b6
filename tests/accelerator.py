"""A GPU for tests on machines that have none: PyTorch's spare device name, computed by the CPU.

It is as strict as a GPU: one operation can't mix tensors of the CPU and of the device, and a
tensor's numbers can be read only after it was moved to the CPU. Moved tensors are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "privateuseone"
if not hasattr(torch, NAME):  # a process can do this once
    _setup_privateuseone_for_python_backend()


class OnDevice(Tensor):
    """A tensor that reports the device as its own."""

    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> OnDevice:
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device=torch.device(f"{NAME}:0"),
        )
        made.inside = inside
        return made

    def __init__(self, inside: Tensor) -> None:
        """Nothing: ``__new__`` has made it."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch declares it without these
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return compute(operation, args, kwargs or {}, [])


def compute(operation: Any, args: Any, kwargs: Any, moved: list[torch.Size]) -> Any:
    """Run an operation on the CPU for tensors of the device, or move a tensor."""
    given = list(tree_iter((args, kwargs)))
    here = [x for x in given if isinstance(x, Tensor) and not isinstance(x, OnDevice) and x.dim()]
    there = [x for x in given if isinstance(x, OnDevice)]
    target = next((x.type for x in given if isinstance(x, torch.device)), None)
    name = operation._schema.name
    moves = name in ("aten::to", "aten::_to_copy", "aten::copy_")
    if here and there and not moves:
        raise RuntimeError(f"{name}: tensors of the CPU and of the device in one operation")
    if moves and there and target == "cpu":
        moved.append(there[0].shape)
    plain_args, plain_kwargs = tree_map(_plain, (args, kwargs))
    result = operation(*plain_args, **plain_kwargs)
    if name.endswith("_") and not name.endswith("__") and there:
        return args[0]  # in place
    on_device = target == NAME or (there and target is None)
    return tree_map(lambda x: OnDevice(x) if on_device and isinstance(x, Tensor) else x, result)


def _plain(given: Any) -> Any:
    """The CPU's counterpart of a tensor of the device, or of the device itself."""
    if isinstance(given, OnDevice):
        return given.inside
    return torch.device("cpu") if isinstance(given, torch.device) else given


class Accelerator(TorchDispatchMode):
    """Within it tensors can be made on the device; ``moved`` has the sizes of those moved back."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[torch.Size] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return compute(func, args, kwargs or {}, self.moved)
