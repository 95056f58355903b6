"""The training loop: from a recipe and a corpus to weights, resumable after an interruption."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from gpt2viz.analysis.batch_scores import batch_scores, probe_rows, token_losses
from gpt2viz.analysis.scores import SCORES, recorded_scores
from gpt2viz.errors import GPT2VizError
from gpt2viz.files import whole
from gpt2viz.model.network import GPT2
from gpt2viz.model.transformer import Transformer
from gpt2viz.training.batches import UNSCORED, Ids, Stream
from gpt2viz.training.card import REPORTED
from gpt2viz.training.pressure import alike_loss, nudge_loss, watch
from gpt2viz.training.recipe import Phase, Recipe

EMBEDDING_STD = 0.05
WAVE_HEIGHT = 0.2
LONGEST = 1000.0
"""The base of the wavelengths, which grow from 2π to 1,000 · 2π tokens."""


def new_network(recipe: Recipe) -> GPT2:
    """Initial weights: normal with 1/√fan_in, half of it for the layers that write to the stream.

    Token embeddings are normal with 0.05, biases 0, and position embeddings start as sinusoids
    (Vaswani et al. 2017, section 3.5), trained like everything else.
    """
    torch.manual_seed(recipe.seed)
    network = GPT2(recipe.config())
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.zeros_(weight)
            elif name.startswith("h.") and weight.ndim == 2:
                share = 0.5 if name.endswith("c_proj.weight") else 1.0
                torch.nn.init.normal_(weight, std=share / math.sqrt(weight.shape[1]))
        torch.nn.init.normal_(network.wte.weight, std=EMBEDDING_STD)
        network.wpe.weight.copy_(WAVE_HEIGHT * waves(recipe.n_positions, recipe.n_embd))
    return network


def waves(n_positions: int, n_embd: int) -> Tensor:
    """Sine and cosine of ever longer waves, interleaved: (n_positions, n_embd)."""
    pairs = (n_embd + 1) // 2
    frequencies = LONGEST ** (-torch.arange(pairs) / pairs)  # (pairs,), radians a token
    angles = torch.arange(n_positions)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :n_embd]


STATE = "state.pt"
#: The weights of the last milestone in float16, from which the run can be resumed on any machine;
#: the rest of the run's state is JSON in the file's metadata, under ``RUN``.
MILESTONE, RUN = "milestone.safetensors", "run"


def optimizers(network: GPT2, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, AdamW for everything else.

    Muon (Jordan et al. 2024) orthogonalises each step's update of a matrix; its rate is scaled to
    updates of AdamW's size (Liu et al. 2025, "Muon is Scalable for LLM Training").
    """
    matrices = [w for name, w in network.named_parameters() if "h." in name and w.ndim == 2]
    others = [w for name, w in network.named_parameters() if "h." not in name or w.ndim < 2]
    return [
        torch.optim.Muon(
            matrices,
            lr=recipe.muon_lr,
            weight_decay=recipe.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(others, lr=recipe.adam_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def batch_loss(network: GPT2, read: Ids, expected: Ids, device: torch.device) -> Tensor:
    """Mean −ln p, in nats, of the expected tokens (B, T) after those read (B, T).

    ``UNSCORED`` targets are ignored. Computed in bfloat16 where autocast allows it.
    """
    with torch.autocast(device.type, torch.bfloat16):
        logits = network(torch.from_numpy(read).to(device))  # (B, T, n_vocab)
    targets = torch.from_numpy(expected).to(device).flatten()
    return F.cross_entropy(logits.float().flatten(0, 1), targets, ignore_index=UNSCORED)


class Trainer:
    """One training run in a folder; ``advance`` resumes it after any interruption."""

    def __init__(
        self, recipe: Recipe, stream: Stream, held_out: Ids, folder: Path, device: str = "cpu"
    ) -> None:
        """``held_out`` (B, T) are rows of text that are never trained on.

        A folder with a milestone but no state resumes from there. Raises ``GPT2VizError``
        if ``folder`` holds the state of another recipe's run.
        """
        self.recipe, self.stream, self.held_out, self.folder = recipe, stream, held_out, folder
        self.device = torch.device(device)
        self.network = new_network(recipe).to(self.device)
        self.optimizers = optimizers(self.network, recipe)
        self.step, self.seconds = 0, 0.0
        self.curves: list[dict[str, Any]] = []
        if (folder / STATE).is_file():
            saved = torch.load(folder / STATE, map_location=self.device, weights_only=True)
            self._resume(saved, saved["weights"])
            for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
                optimizer.load_state_dict(state)
        elif (folder / MILESTONE).is_file():
            with safe_open(folder / MILESTONE, "pt") as file:
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                self._resume(json.loads(file.metadata()[RUN]), weights)

    def advance(self, until: int, report: Callable[[str], None], *, every: int) -> None:
        """Train up to step ``until``; save and report every ``every`` steps and at each of the
        recipe's ``points``, where the heads are measured too.
        """
        while self.step < until:
            following = [point for point in self.recipe.points if point > self.step]
            goal = min(until, self.step - self.step % every + every, *following)
            started, tokens, losses = time.monotonic(), 0, []
            while self.step < goal:
                tokens += self.recipe.phase_at(self.step).tokens
                losses.append(self._one_step())
            seconds = time.monotonic() - started
            self.seconds += seconds
            if goal in self.recipe.points:
                read, loss = self.recipe.tokens_until(goal), float(np.mean(losses))
                point = {"step": goal, "tokens": read, "train_loss": loss}
                self.curves.append(point | measure(self.network, self.held_out))
            self._save()
            left = (self.recipe.tokens - self.recipe.tokens_until(goal)) / (tokens / seconds)
            report(
                f"step {goal:,}/{self.recipe.steps:,} · loss {np.mean(losses):.3f} nats · "
                f"{tokens / seconds:,.0f} tokens/s · {left / 60:.0f} min left{self._heads()}"
            )

    def _heads(self) -> str:
        """The last point of the curve as text, if it is this step's."""
        if not self.curves or self.curves[-1]["step"] != self.step:
            return ""
        last = self.curves[-1]
        best = {name: f"{np.max(last[SCORES[name].record]):.2f}" for name in REPORTED}
        return f" · held out {last['held_out_loss']:.3f} nats · best heads {best}"

    def _one_step(self) -> float:
        if self.step and self.step % self.recipe.milestone == 0:
            self._start_from_milestone()
        phase = self.recipe.phase_at(self.step)
        read, expected = self.stream.batch(phase, self.recipe.seed, self.step)
        self.network.train().zero_grad()
        with watch(self.network) as seen:
            loss = batch_loss(self.network, read, expected, self.device)
            total = loss + self._pressure(seen, read, phase)
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        rate = self.recipe.rate(self.step)
        highest_rates = (self.recipe.muon_lr, self.recipe.adam_lr)
        for optimizer, highest in zip(self.optimizers, highest_rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = highest * rate
            optimizer.step()
        self.step += 1
        return loss.item()

    def _pressure(self, seen: Mapping[str, Tensor], read: Ids, phase: Phase) -> Tensor:
        """The auxiliary losses at this step: its nudges, and the loss on similar heads.

        The latter on each kind of rows separately: heads may be alike on only one of them.
        """
        added = torch.zeros((), device=self.device)
        for nudge in self.recipe.nudges:
            if nudge.is_active(self.step):
                added = added + nudge.weight * nudge_loss(seen, nudge, read)
        if self.recipe.alike:
            repeated = phase.repeated_rows
            kinds = [slice(0, 2), slice(phase.batch - min(2, repeated), phase.batch)]
            for rows in kinds if repeated else kinds[:1]:
                added = added + self.recipe.alike * alike_loss(seen, rows)
        return added

    def _start_from_milestone(self) -> None:
        """Round the weights, save them, and reset the optimizers.

        A run that is resumed from the file does the same, so both take the same steps from there.
        """
        weights = {n: w.detach().cpu().half() for n, w in self.network.named_parameters()}
        self._load(weights)
        self.optimizers = optimizers(self.network, self.recipe)
        with whole(self.folder / MILESTONE) as partial:
            save_file(weights, partial, metadata={RUN: json.dumps(self._run())})

    def _save(self) -> None:
        """Replace the state file atomically, so that a killed run leaves the old or the new one."""
        state = self._run() | {
            "weights": dict(self.network.named_parameters()),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        with whole(self.folder / STATE) as partial, partial.open("wb") as file:
            torch.save(state, file)

    def _run(self) -> dict[str, Any]:
        """The progress of the run, without its weights."""
        return {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "seconds": self.seconds,
            "curves": self.curves,
        }

    def _resume(self, run: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        if not self.recipe.resumes(run["recipe"], run["step"]):
            raise GPT2VizError(
                f"{self.folder} holds a run of another recipe; give another folder, or delete it"
            )
        self.step, self.seconds, self.curves = run["step"], run["seconds"], run["curves"]
        self._load(weights)

    def _load(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(weights[name])


def measure(network: Transformer, held_out: Ids) -> dict[str, Any]:
    """A point of the training curve: held-out loss (nats a token), losses in the first and second
    half of repeated random rows, and every head's scores (n_layer × n_head lists).
    """
    network.eval()
    text = torch.from_numpy(held_out).to(network.device)
    repeated = probe_rows(network.config.vocab_size, network.config.n_positions).to(text.device)
    period = repeated.shape[1] // 2
    losses = token_losses(network, repeated)
    scores = batch_scores(network, {"text": text, "probe": repeated}, recorded_scores())
    return {
        "held_out_loss": float(token_losses(network, text).mean()),
        "first_half_loss": float(losses[:, : period - 1].mean()),
        "second_half_loss": float(losses[:, period:].mean()),
        **{s.record: [layer.tolist() for layer in scores[s.name]] for s in recorded_scores()},
    }
