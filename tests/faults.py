"""Faults worth keeping: each was made once, or would be easy to make, and a test must notice it."""

from __future__ import annotations

from typing import NamedTuple

NUMPY = "tests/parity/test_parity.py::test_every_stage_equals_numpy"
THEIRS = "tests/parity/test_parity.py::test_equals_transformers"
TRACING = "tests/unit/test_tracing.py::"
CONVERT = "tests/parity/test_convert.py::"
EDITS = "tests/parity/test_edits.py::test_every_edit_equals_transformers"
TOKENIZER = "tests/unit/test_tokenizer.py::"
ATTRIBUTION = "tests/parity/test_attribution.py::"
CHANGES = "tests/unit/test_edits.py::"
GENERATION = "tests/unit/test_generation.py::"
MEMORY = "tests/unit/test_memory.py::"
HUB = "tests/unit/test_hub.py::"
LENS = "tests/parity/test_lens.py::"
PREDICTIONS = "tests/unit/test_predictions.py::"
WORDS = "tests/unit/test_words.py::"
HEADS = "tests/unit/test_heads.py::"
PATTERNS = "tests/unit/test_patterns.py::"
COMPARISON = "tests/parity/test_comparison.py::"
SURVEY = "tests/unit/test_survey.py::"
ACROSS = "tests/unit/test_across.py::"


class Mutant(NamedTuple):
    """A fault: in ``file``, ``right`` becomes ``wrong``; ``test`` must notice."""

    name: str
    file: str
    right: str
    wrong: str
    test: str


MUTANTS = (
    Mutant("scale 1/hs", "model.py", "(math.sqrt(hs) *", "(hs *", NUMPY),
    Mutant("no scale", "model.py", "(math.sqrt(hs) *", "(1 *", NUMPY),
    Mutant("layers scaled from 0", "config.py", "layer + 1 if", "layer if", THEIRS),
    Mutant("deeper layers not scaled", "model.py", "(hs) * self.divisor)", "(hs) * 1)", THEIRS),
    Mutant("fused not scaled", "model.py", "* self.attend.divisor", "* 1", NUMPY),
    Mutant("divisor lost later", "traces.py", "(qkv, divisor,", "(qkv, 1,", NUMPY),
    Mutant("scores transposed", "model.py", "q @ k.transpose(-2, -1)", "k @ q.mT", NUMPY),
    Mutant("mask hides oneself", "model.py", "triu(diagonal=1)", "triu(diagonal=0)", NUMPY),
    Mutant("mask shows the next", "model.py", "triu(diagonal=1)", "triu(diagonal=2)", NUMPY),
    Mutant("mask never off", "model.py", "future if causal else", "future if True else", NUMPY),
    Mutant("softmax by column", "model.py", "softmax(masked, dim=-1)", "softmax(masked, 2)", NUMPY),
    Mutant("q and k swapped", "model.py", "q, k, v = self.c_attn", "k, q, v = self.c_attn", NUMPY),
    Mutant(
        "heads cut the wrong way",
        "model.py",
        "x.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)",
        "x.view(B, self.n_head, T, C // self.n_head)",
        NUMPY,
    ),
    Mutant("heads merged unturned", "model.py", "y.transpose(1, 2).reshape", "y.reshape", THEIRS),
    Mutant("positions from 1", "model.py", "arange(T, device", "arange(1, T + 1, device", THEIRS),
    Mutant("no norm before MLP", "model.py", "normed = self.ln_2(x)", "normed = x", THEIRS),
    Mutant("gelus swapped", "model.py", '"gelu": nn.GELU', '"gelu": GELUTanh', THEIRS),
    Mutant("no norm before attention", "model.py", "normed = self.ln_1(x)", "normed = x", THEIRS),
    Mutant(
        "attention adds no stream", "model.py", "x + self.attn(normed", "self.attn(normed", THEIRS
    ),
    Mutant(
        "square matrix not turned",
        "checkpoint.py",
        '"attn.c_proj.weight", "mlp.c_fc.weight"',
        '"mlp.c_fc.weight"',
        THEIRS,
    ),
    Mutant(
        "no lock",
        "tracing.py",
        "_TURN = threading.Lock()",
        "from contextlib import nullcontext; _TURN = nullcontext()",
        TRACING + "test_eight_threads_on_one_model_get_what_one_thread_gets",
    ),
    Mutant(
        "floats cut to ids",
        "tracing.py",
        "operator.index(value)",
        "int(value)",
        TRACING + "test_what_cannot_be_run",
    ),
    Mutant(
        "parameters counted twice",
        "tracing.py",
        "seen.update(own)",
        "pass",
        TRACING + "test_the_shape_table_is_what_ran",
    ),
    Mutant(
        "hooks stay after an error",
        "tracing.py",
        "hooks.callback(module.register_forward_hook(hook).remove)",
        "module.register_forward_hook(hook)",
        TRACING + "test_no_hook_is_left_behind",
    ),
    Mutant(
        "arrays can be written",
        "tracing.py",
        "array.flags.writeable = False",
        "pass",
        TRACING + "test_arrays_are_read_only_float32_with_the_declared_shape",
    ),
    Mutant(
        "derived with the mask",
        "traces.py",
        "qkv, divisor, self.causal",
        "qkv, divisor, True",
        NUMPY,
    ),
    Mutant("fused with the mask", "model.py", "is_causal=causal", "is_causal=True", NUMPY),
    Mutant(
        "derived without the edits",
        "traces.py",
        "self.causal, self.forbidden, keys)",
        "self.causal, None, keys)",
        EDITS,
    ),
    Mutant("fused without the edits", "model.py", "attn_mask=seen", "attn_mask=None", EDITS),
    Mutant(
        "scaled twice",
        "interventions.py",
        "*= edit.factor or 0.0",
        "*= (edit.factor or 0.0) ** 2",
        EDITS,
    ),
    Mutant(
        "another head is off",
        "interventions.py",
        "changed[:, edit.head] *",
        "changed[:, 0] *",
        EDITS,
    ),
    Mutant("window one too wide", "edits.py", ">= (edit.width or 1)", "> (edit.width or 1)", EDITS),
    Mutant(
        "edits stay in the model",
        "tracing.py",
        "hooks.callback(handle.remove)",
        "pass",
        "tests/unit/test_edits.py::test_the_next_run_knows_nothing_of_it",
    ),
    Mutant(
        "sizes unchecked",
        "checkpoint.py",
        "if found.size != size:",
        "if False:",
        "tests/unit/test_checkpoint.py::test_wrong_tensors",
    ),
    Mutant(
        "any integer is a weight",
        "checkpoint.py",
        "found.dtype not in _FLOATS",
        "not found.dtype",
        "tests/unit/test_checkpoint.py::test_wrong_tensors",
    ),
    Mutant(
        "only 0 to 9 are numbers",
        "tokenizer.py",
        r" ?\p{N}++",
        " ?[0-9]++",
        TOKENIZER + "test_every_character_is_cut_off_where_hugging_face_cuts",
    ),
    Mutant(
        "ids taken for ranks",
        "tokenizer.py",
        "for left, right in merges:\n            part",
        "for left, right in sorted(merges, key=lambda m: vocab[m[0] + m[1]]):\n            part",
        TOKENIZER + "test_ids_that_do_not_follow_the_merges",
    ),
    Mutant(
        "specials are read from text",
        "tokenizer.py",
        "self._encoding.encode_ordinary(part)",
        'self._encoding.encode_ordinary(part.replace("<|endoftext|>", ""))',
        TOKENIZER + "test_ids_equal_hugging_faces",
    ),
    Mutant(
        "two tokens, one label",
        "labels.py",
        'SPACE: r"\\u00b7", ',
        "",
        "tests/unit/test_labels.py::test_two_tokens_never_share_a_label",
    ),
    Mutant(
        "mean of one token",
        "interventions.py",
        "[0, edit.head].mean(axis=0)",
        "[0, edit.head][0]",
        EDITS,
    ),
    Mutant(
        "edits backwards",
        "interventions.py",
        "for edit in edits:",
        "for edit in reversed(list(edits)):",
        EDITS,
    ),
    Mutant(
        "scaled from there on", "interventions.py", "[:, edit.head] *=", "[:, edit.head:] *=", EDITS
    ),
    Mutant(
        "hidden the wrong way round",
        "edits.py",
        "pairs[edit.query, edit.key]",
        "pairs[edit.key, edit.query]",
        EDITS,
    ),
    Mutant(
        "first token is blind",
        "edits.py",
        "pairs[1:, 0] = True",
        "pairs[:, 0] = True",
        CHANGES + "test_who_is_hidden_from_whom",
    ),
    Mutant(
        "keys stay behind",
        "edits.py",
        "key=edit.key + by",
        "key=edit.key",
        CHANGES + "test_edits_go_along_with_their_tokens",
    ),
    Mutant(
        "blind queries let through",
        "edits.py",
        "if blind.any():",
        "if blind.all():",
        CHANGES + "test_what_does_not_fit",
    ),
    Mutant(
        "lens without the norm",
        "lens.py",
        "network.lm_head(network.ln_f(here))",
        "network.lm_head(here)",
        LENS + "test_logit_lens_equals_transformers_modules",
    ),
    Mutant(
        "answer from before the last MLP",
        "lens.py",
        '("residual_mid", "residual_out")',
        '("residual_out", "residual_mid")',
        LENS + "test_logit_lens_equals_transformers_modules",
    ),
    Mutant(
        "ranks from 0",
        "lens.py",
        "= 1 + (logits >",
        "= (logits >",
        LENS + "test_logit_lens_equals_transformers_modules",
    ),
    Mutant(
        "entropy in nats",
        "lens.py",
        ".numpy() / np.log(2)",
        ".numpy()",
        LENS + "test_logit_lens_equals_transformers_modules",
    ),
    Mutant(
        "each run its own answer",
        "lens.py",
        "if answers is None and n ==",
        "if n ==",
        LENS + "test_other_answers_can_be_followed",
    ),
    Mutant(
        "norm's mean left in",
        "lens.py",
        "direction -= direction.mean()",
        "pass",
        LENS + "test_contributions_sum_to_transformers_logit",
    ),
    Mutant(
        "scale of another token",
        "lens.py",
        "np.sqrt(end.var()",
        'np.sqrt(stage("embedding").var()',
        LENS + "test_contributions_sum_to_transformers_logit",
    ),
    Mutant(
        "attention's bias forgotten",
        "lens.py",
        '_projection(model, n, "bias") @ direction',
        '0 * _projection(model, n, "bias") @ direction',
        LENS + "test_contributions_sum_to_transformers_logit",
    ),
    Mutant(
        "heads share each other's rows",
        "lens.py",
        "weight.reshape(*head_output.shape, -1)",
        "weight.reshape(*head_output.shape[::-1], -1).swapaxes(0, 1)",
        LENS + "test_one_heads_share_is_what_the_logit_loses_without_it",
    ),
    Mutant(
        "surprise of the token before",
        "predictions.py",
        "trace.token_ids[start + 1 : start + 1 + len(rows)]",
        "trace.token_ids[start : start + len(rows)]",
        LENS + "test_surprise_equals_transformers_loss",
    ),
    Mutant(
        "temperature multiplies",
        "predictions.py",
        ") / temperature)",
        ") * temperature)",
        PREDICTIONS + "test_by_hand",
    ),
    Mutant(
        "top-p stops one short",
        "predictions.py",
        "shares.cumsum(), top_p) + 1]",
        "shares.cumsum(), top_p)]",
        PREDICTIONS + "test_by_hand",
    ),
    Mutant(
        "top-p of what top-k left out too",
        "predictions.py",
        "shares = probabilities[kept] / probabilities[kept].sum()",
        "shares = probabilities[kept]",
        PREDICTIONS + "test_equals_transformers_warpers",
    ),
    Mutant(
        "KL the other way round",
        "predictions.py",
        "(np.exp(log_old) * (log_old - log_new))",
        "(np.exp(log_new) * (log_new - log_old))",
        PREDICTIONS + "test_bits",
    ),
    Mutant(
        "always greedy",
        "generation.py",
        'int(np.searchsorted(upto, place * upto[-1], side="right"))',
        "int(np.argmax(shares))",
        GENERATION + "test_draws_follow_the_distribution",
    ),
    Mutant(
        "every seed writes the same",
        "generation.py",
        "default_rng([seed, len(trace.token_ids)])",
        "default_rng(len(trace.token_ids))",
        GENERATION + "test_the_same_seed_writes_the_same_text",
    ),
    Mutant(
        "written on past the end",
        "generation.py",
        "if token == model.tokenizer.end_of_text or len(ids)",
        "if len(ids)",
        GENERATION + "test_it_ends_at_the_end_of_a_text",
    ),
    Mutant(
        "values longer for another query",
        "attribution.py",
        "lengths[:, None, :]",
        "lengths[:, :, None]",
        ATTRIBUTION + "test_value_weighted_is_the_length_of_what_is_written",
    ),
    Mutant(
        "W_O not turned",
        "attribution.py",
        "weight.detach().cpu().numpy().T",
        "weight.detach().cpu().numpy()",
        ATTRIBUTION + "test_value_weighted_is_the_length_of_what_is_written",
    ),
    Mutant(
        "rollout without the stream",
        "attribution.py",
        "(mean + np.eye(len(mean), dtype=np.float32)) / 2 @",
        "mean @",
        ATTRIBUTION + "test_rollout_by_hand",
    ),
    Mutant(
        "rollout upside down",
        "attribution.py",
        "mixed = (mean + np.eye(len(mean), dtype=np.float32)) / 2 @ mixed",
        "mixed = mixed @ ((mean + np.eye(len(mean), dtype=np.float32)) / 2)",
        ATTRIBUTION + "test_rollout_by_hand",
    ),
    Mutant(
        "rest not rescaled",
        "attribution.py",
        "rest / total",
        "rest",
        ATTRIBUTION + "test_rows_without_the_first_token",
    ),
    Mutant(
        "end of text comes last",
        "tokenizer.py",
        "[first, *ids]",
        "[*ids, first]",
        TOKENIZER + "test_the_end_of_text_comes_first_only_when_asked_for",
    ),
    Mutant(
        "end of text unasked",
        "tokenizer.py",
        "self.end_of_text if end_of_text_first else None",
        "self.end_of_text",
        TOKENIZER + "test_the_end_of_text_comes_first_only_when_asked_for",
    ),
    Mutant(
        "a word's rows summed",
        "words.py",
        "(sums / sizes[:, None])",
        "(sums / 1)",
        WORDS + "test_equals_a_product_of_matrices",
    ),
    Mutant(
        "a word's columns averaged",
        "words.py",
        "(sums / sizes[:, None])",
        "(sums / sizes)",
        WORDS + "test_equals_a_product_of_matrices",
    ),
    Mutant(
        "apostrophes cut words",
        "words.py",
        "following.isalpha()",
        "False",
        WORDS + "test_where_words_begin",
    ),
    Mutant(
        "marks cut words",
        "words.py",
        '("Mn", "Mc", "Me", "Cf")',
        "()",
        WORDS + "test_where_words_begin",
    ),
    Mutant(
        "end of text part of a word",
        "words.py",
        "or END_OF_TEXT in (token, before)",
        "",
        WORDS + "test_where_words_begin",
    ),
    Mutant(
        "characters cut at their bytes",
        "words.py",
        "if offset in begins",
        "if token[:1] > b'\\x7f' or offset in begins",
        WORDS + "test_the_bytes_of_one_character_stay_together",
    ),
    Mutant(
        "words hidden with their first token",
        "figures/measure.py",
        "hidden=np.logical_and.reduceat(hidden",
        "hidden=np.logical_or.reduceat(hidden",
        WORDS + "test_a_cell_is_hidden_where_all_its_tokens_cells_are",
    ),
    Mutant(
        "loaded without a look at memory",
        "checkpoint.py",
        "    memory.check(",
        "    str(",
        MEMORY + "test_a_model_that_does_not_fit_is_refused_before_it_is_read",
    ),
    Mutant(
        "mapped weights copied",
        "checkpoint.py",
        "tensor.t() if",
        "tensor.t().contiguous() if",
        MEMORY + "test_float32_weights_are_mapped_from_their_file_once",
    ),
    Mutant(
        "no room for what comes",
        "ui/kept.py",
        "+ nbytes > self.budget",
        "> self.budget",
        "tests/unit/test_kept.py::test_room_is_made_from_the_oldest",
    ),
    Mutant(
        "projection not turned",
        "convert.py",
        '"attn.c_proj.weight", "mlp',
        '"mlp',
        CONVERT + "test_nanogpt",
    ),
    Mutant(
        "keys first",
        "convert.py",
        '("query", "key", "value"))',
        '("key", "query", "value"))',
        CONVERT + "test_mingpt",
    ),
    Mutant(
        "one curve for both",
        "convert.py",
        'if saved else "gelu_new"',
        'if saved else "gelu"',
        CONVERT + "test_mingpt",
    ),
    Mutant("biases of 1", "convert.py", "new_zeros", "new_ones", CONVERT + "test_nanogpt"),
    Mutant(
        "pickles run code",
        "convert.py",
        "weights_only=True, mmap",
        "weights_only=False, mmap",
        CONVERT + "test_a_pickle_with_code_is_refused_and_not_run",
    ),
    Mutant(
        "a token is its own duplicate",
        "heads.py",
        "here[:, None] == here, -1)",
        "here[:, None] == here)",
        HEADS + "test_agrees_with_transformer_lens",
    ),
    Mutant(
        "induction without the step on",
        "heads.py",
        "found[:, 1:] = duplicate_token(ids)[:, :-1]",
        "found[:, :] = duplicate_token(ids)",
        HEADS + "test_heads_built_by_hand",
    ),
    Mutant(
        "the first query counts",
        "heads.py",
        "rows = weights[..., 1:, :]\n    logs",
        "rows = weights\n    logs",
        HEADS + "test_amounts_against_loops",
    ),
    Mutant(
        "a drawn row sums to its cells",
        "patterns.py",
        "np.maximum(wanted.sum(axis=1, keepdims=True), 1)",
        "1",
        PATTERNS + "test_similarity_against_a_loop",
    ),
    Mutant(
        "moved words are lost",
        "comparison.py",
        "if not met:",
        "if met or not met:",
        COMPARISON + "test_words_that_changed_places_are_shared",
    ),
    Mutant(
        "the first text's token on both sides",
        "comparison.py",
        "_vector(b, place, at[1])",
        "_vector(b, place, at[0])",
        COMPARISON + "test_the_path_of_a_word_against_numpy",
    ),
    Mutant(
        "one shard's squares are lost",
        "survey/sums.py",
        "one.squares + other.squares",
        "one.squares",
        SURVEY + "test_sums_of_parts_are_the_sums_of_all",
    ),
    Mutant(
        "a cut off survey begins anew",
        "survey/__main__.py",
        "if not _path(out, shard.number).is_file():",
        "if shard.number >= 0:",
        SURVEY + "test_a_survey_that_was_cut_off_goes_on",
    ),
    Mutant(
        "a survey of other weights",
        "across.py",
        'made["model"] != weights_fingerprint(model)',
        'made["model"] == ""',
        ACROSS + "test_of_other_weights",
    ),
    Mutant(
        "hash never compared",
        "hub.py",
        "_digest(part, file) != file.digest",
        "not _digest(part, file)",
        HUB + "test_a_damaged_file_is_not_kept",
    ),
    Mutant(
        "begins anew",
        "hub.py",
        '__init__(path, "ab")',
        '__init__(path, "wb")',
        HUB + "test_a_stopped_download_keeps_what_came_and_goes_on",
    ),
    Mutant(
        "everything is fetched",
        "hub.py",
        'return ["config.json", *words, *weights]',
        "return list(have)",
        HUB + "test_only_what_is_needed_is_fetched_and_runs",
    ),
)
