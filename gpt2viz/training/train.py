"""The training loop: from a recipe and a corpus to weights, resumable after any interruption."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from gpt2viz.model import GPT2
from gpt2viz.training.batches import Ids, Stream
from gpt2viz.training.recipe import Recipe
from gpt2viz.training.scores import (
    attention_weights,
    first_token_score,
    induction_score,
    previous_token_score,
    repeated_rows,
    token_losses,
)

STATE = "state.pt"


def new_network(recipe: Recipe) -> GPT2:
    """Fresh weights: normal with 0.02, and 0.02/√(2 L) for the layers that write to the stream.

    That is GPT-2's initialisation (Radford et al. 2019, section 2.3), but for the position
    embeddings, which start as ``sinusoids``: looking one token back is then the same turn
    everywhere.
    """
    torch.manual_seed(recipe.seed)
    network = GPT2(recipe.config())
    for name, weight in network.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(weight)
        elif name.endswith("c_proj.weight"):
            torch.nn.init.normal_(weight, std=0.02 / math.sqrt(2 * recipe.n_layer))
        elif ".ln_" not in name and "ln_f" not in name:
            torch.nn.init.normal_(weight, std=0.02)
    with torch.no_grad():
        network.wpe.weight.copy_(0.05 * sinusoids(recipe.n_positions, recipe.n_embd))
    return network


def sinusoids(n_positions: int, n_embd: int, base: float = 100.0) -> Tensor:
    """Sines and cosines of falling frequency, (n_positions, n_embd).

    Vaswani et al. 2017, section 3.5, with a smaller ``base``: the context is short.
    """
    frequencies = base ** -(torch.arange(0, n_embd, 2) / n_embd)
    angles = torch.arange(n_positions)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def optimizers(network: GPT2, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, AdamW for everything else.

    Muon (Jordan et al. 2024) makes each step's change of a matrix orthogonal.
    """
    matrices = [p for name, p in network.named_parameters() if "h." in name and p.ndim == 2]
    inside = {id(p) for p in matrices}
    others = [p for p in network.parameters() if id(p) not in inside]
    return [
        torch.optim.Muon(matrices, lr=recipe.muon_lr, weight_decay=recipe.weight_decay),
        torch.optim.AdamW(others, lr=recipe.adam_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def batch_loss(network: GPT2, rows: Ids) -> Tensor:
    """Mean −ln p, in nats, of tokens 1 … T of rows (B, T + 1)."""
    ids = torch.from_numpy(rows)
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(ids[:, :-1])  # (B, T, n_vocab)
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


class Trainer:
    """One training run in a folder; ``advance`` takes it on, wherever it was cut off."""

    def __init__(self, recipe: Recipe, stream: Stream, held_out: Ids, folder: Path) -> None:
        """``held_out`` (B, T) are rows of text that are never trained on."""
        self.recipe, self.stream, self.held_out, self.folder = recipe, stream, held_out, folder
        self.network = new_network(recipe)
        self.optimizers = optimizers(self.network, recipe)
        self.schedules = [LambdaLR(optimizer, recipe.rate) for optimizer in self.optimizers]
        self.step, self.seconds = 0, 0.0
        self.curves: list[dict[str, Any]] = []
        if (folder / STATE).is_file():
            self._load()

    def advance(self, until: int, report: Callable[[str], None], *, every: int) -> None:
        """Train up to step ``until``; measure, save and report every ``every`` steps."""
        while self.step < until:
            goal = min(until, self.step - self.step % every + every)
            started, tokens, losses = time.monotonic(), 0, []
            while self.step < goal:
                tokens += self.recipe.phase_at(self.step).tokens
                losses.append(self._one_step())
            speed = tokens / (time.monotonic() - started)
            self.seconds += time.monotonic() - started
            point = measure(self.network, self.held_out)
            read = self.recipe.tokens_until(self.step)
            self.curves.append(
                {"step": self.step, "tokens": read, "train_loss": float(np.mean(losses))} | point
            )
            self._save()
            left = (self.recipe.tokens - read) / speed / 60
            best = {name: f"{np.max(point[name]):.2f}" for name in ("previous", "induction")}
            report(
                f"step {self.step}/{self.recipe.steps} · loss {np.mean(losses):.3f} · "
                f"held out {point['held_out_loss']:.3f} nats · best heads {best} · "
                f"{speed:,.0f} tokens/s · {left:.0f} min left"
            )

    def _one_step(self) -> float:
        phase = self.recipe.phase_at(self.step)
        rows = self.stream.batch(phase, self.recipe.seed, self.step)
        self.network.train().zero_grad()
        loss = batch_loss(self.network, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer, schedule in zip(self.optimizers, self.schedules, strict=True):
            optimizer.step()
            schedule.step()
        self.step += 1
        return loss.item()

    def _parts(self) -> list[Any]:
        return [self.network, *self.optimizers, *self.schedules]

    def _save(self) -> None:
        """Replace the state in one move, so that a kill leaves the old one or the new one."""
        state = {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "seconds": self.seconds,
            "curves": self.curves,
            "parts": [part.state_dict() for part in self._parts()],
        }
        torch.save(state, self.folder / f"{STATE}.new")
        os.replace(self.folder / f"{STATE}.new", self.folder / STATE)

    def _load(self) -> None:
        state = torch.load(self.folder / STATE, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise ValueError(
                f"{self.folder} holds a run of another recipe; give another folder, or delete it"
            )
        self.step, self.seconds = state["step"], state["seconds"]
        self.curves = state["curves"]
        for part, saved in zip(self._parts(), state["parts"], strict=True):
            part.load_state_dict(saved)


def measure(network: GPT2, held_out: Ids) -> dict[str, Any]:
    """A point of the training curve: held-out loss (nats a token), losses of the first and second
    half of repeated random rows, and every head's scores (n_layer × n_head lists).
    """
    network.eval()
    period = min(32, network.config.n_positions // 2)
    text = torch.from_numpy(held_out)
    repeated = repeated_rows(network.config.vocab_size, 8, period, seed=1)
    losses = token_losses(network, repeated)
    on_text, on_repeated = attention_weights(network, text), attention_weights(network, repeated)
    return {
        "held_out_loss": float(token_losses(network, text).mean()),
        "first_half_loss": float(losses[:, : period - 1].mean()),
        "second_half_loss": float(losses[:, period:].mean()),
        "previous": [previous_token_score(w).tolist() for w in on_text],
        "first": [first_token_score(w).tolist() for w in on_text],
        "induction": [induction_score(w, period).tolist() for w in on_repeated],
    }
