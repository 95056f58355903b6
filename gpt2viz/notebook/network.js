// GPT-2 in plain JavaScript, in the order of the data flow, with the names of model/network.py.
//
// A tensor is a Float32Array, row by row; its shape is at the end of the line that makes it:
// T tokens after P others, S = P + T, C channels, nh heads, hs channels of a head, F of the MLP.

/** @typedef {{n_layer: number, n_head: number, n_embd: number, n_positions: number,
 *   epsilon: number, divisors: number[], activation: string}} Config
 * @typedef {{config: Config, weights: Record<string, Float32Array>}} Model */

/** x Wᵀ + b: (T, K) -> (T, N), where W is (N, K). */
export function linear(x, W, b, K) {
  const T = x.length / K, N = W.length / K, y = new Float32Array(T * N)
  for (let step = 0; step < N; step += 4) {
    const n = Math.max(0, Math.min(step, N - 4)) // four rows of W at once, so that x is read once
    const w = n * K, [second, third, fourth] = [1, 2, 3].map((m) => Math.min(n + m, N - 1) * K)
    for (let t = 0; t < T; t++) {
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0
      for (let k = 0, at = t * K; k < K; k++, at++) {
        const number = x[at]
        s0 += number * W[w + k]
        s1 += number * W[second + k]
        s2 += number * W[third + k]
        s3 += number * W[fourth + k]
      }
      const to = t * N + n
      y[to] = s0
      if (N > 1) y[to + 1] = s1
      if (N > 2) y[to + 2] = s2
      if (N > 3) y[to + 3] = s3
    }
  }
  if (b) for (let n = 0; n < y.length; n++) y[n] += b[n % N]
  return y
}

/** Each row (C,) of x with mean 0 and variance 1, times weight, plus bias: (T, C) -> (T, C). */
export function layerNorm(x, weight, bias, epsilon) {
  const C = weight.length, y = new Float32Array(x.length)
  for (let row = 0; row < x.length; row += C) {
    let mean = 0, variance = 0
    for (let c = 0; c < C; c++) mean += x[row + c] / C
    for (let c = 0; c < C; c++) variance += (x[row + c] - mean) ** 2 / C
    const scale = 1 / Math.sqrt(variance + epsilon)
    for (let c = 0; c < C; c++) y[row + c] = (x[row + c] - mean) * scale * weight[c] + bias[c]
  }
  return y
}

/** Numbers (n,) that are not negative and sum to 1; −∞ becomes 0. */
export function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity)
  const powers = Float64Array.from(scores, (score) => Math.exp(score - most))
  const sum = powers.reduce((a, b) => a + b, 0)
  return Float32Array.from(powers, (power) => power / sum)
}

const ACTIVATION = {
  gelu_new: (x) => .5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + .044715 * x ** 3))),
  relu: (x) => Math.max(x, 0),
  silu: (x) => x / (1 + Math.exp(-x)),
  tanh: Math.tanh,
}

/** `width` columns, from the `first` on, of rows with `wide` columns: (T, wide) -> (T, width). */
export function columns(x, wide, first, width) {
  const y = new Float32Array(x.length / wide * width)
  for (let row = 0, at = first; at < x.length; row += width, at += wide)
    y.set(x.subarray(at, at + width), row)
  return y
}

function joined(before, x) {
  if (!before) return x
  const both = new Float32Array(before.length + x.length)
  both.set(before)
  both.set(x, before.length)
  return both
}

/** softmax(q kᵀ / divisor + mask) v of one head, step by step: q (T, hs), k and v (S, hs). The
 * last query is the last key's token, so that `causal` hides the keys after each. */
export function attend(q, k, v, hs, divisor, causal) {
  const T = q.length / hs, S = k.length / hs, P = S - T
  const scores = linear(q, k, null, hs) // (T, S)
  const scaled_scores = scores.map((score) => score / divisor) // (T, S)
  const masked_scores = causal // (T, S)
    ? scaled_scores.map((score, n) => n % S > P + Math.floor(n / S) ? -Infinity : score)
    : scaled_scores
  const weights = new Float32Array(T * S) // (T, S)
  const head_output = new Float32Array(T * hs) // (T, hs)
  for (let t = 0; t < T; t++) {
    const row = softmax(masked_scores.subarray(t * S, (t + 1) * S))
    weights.set(row, t * S)
    for (let s = 0; s < S; s++)
      if (row[s])
        for (let i = 0; i < hs; i++) head_output[t * hs + i] += row[s] * v[s * hs + i]
  }
  return { q, k, v, scores, scaled_scores, masked_scores, weights, head_output }
}

// Multi-head self-attention of normalized rows (T, C): each head's tensors, all keys and values,
// and the addition to the residual stream.
function selfAttention({ config, weights: W }, layer, x, causal, past) {
  const { n_head, n_embd: C } = config, hs = C / n_head, name = `h.${layer}.attn`
  const qkv = linear(x, W[`${name}.c_attn.weight`], W[`${name}.c_attn.bias`], C) // (T, 3C)
  const q = columns(qkv, 3 * C, 0, C) // (T, C)
  const k = joined(past?.k, columns(qkv, 3 * C, C, C)) // (S, C)
  const v = joined(past?.v, columns(qkv, 3 * C, 2 * C, C)) // (S, C)
  const heads = Array.from({ length: n_head }, (_, head) => {
    const [ofQ, ofK, ofV] = [q, k, v].map((all) => columns(all, C, head * hs, hs)) // (T or S, hs)
    return attend(ofQ, ofK, ofV, hs, config.divisors[layer], causal)
  })
  const merged = new Float32Array(q.length) // (T, C)
  heads.forEach(({ head_output }, head) => {
    for (let n = 0; n < head_output.length; n++)
      merged[Math.floor(n / hs) * C + head * hs + n % hs] = head_output[n]
  })
  const out = linear(merged, W[`${name}.c_proj.weight`], W[`${name}.c_proj.bias`], C) // (T, C)
  return { k, v, heads, out }
}

function mlp({ config, weights: W }, layer, x) {
  const name = `h.${layer}.mlp`, b = W[`${name}.c_fc.bias`], F = b.length
  const hidden = linear(x, W[`${name}.c_fc.weight`], b, config.n_embd) // (T, F)
  const act = hidden.map(ACTIVATION[config.activation]) // (T, F)
  return linear(act, W[`${name}.c_proj.weight`], W[`${name}.c_proj.bias`], F) // (T, C)
}

const sum = (x, y) => x.map((value, n) => value + y[n])

function norm({ config, weights: W }, name, x) {
  return layerNorm(x, W[`${name}.weight`], W[`${name}.bias`], config.epsilon)
}

/** Run the model on ids (T,): every layer's heads with all of `attend`'s tensors, all its keys and
 * values (S, C), and the normalized stream at the end (T, C). `past` has the layers of a run, with
 * the mask on, of the tokens before these.
 *
 * @param {Model} model @param {number[]} ids */
export function forward(model, ids, { causal = true, past = [] } = {}) {
  const { config: { n_layer, n_embd: C }, weights: W } = model, layers = []
  const P = past.length ? past[0].k.length / C : 0
  let x = new Float32Array(ids.length * C)
  ids.forEach((id, t) => {
    for (let c = 0; c < C; c++)
      x[t * C + c] = W["wte.weight"][id * C + c] + W["wpe.weight"][(P + t) * C + c] // (T, C)
  })
  for (let layer = 0; layer < n_layer; layer++) {
    const normed = norm(model, `h.${layer}.ln_1`, x) // (T, C)
    const { out, ...made } = selfAttention(model, layer, normed, causal, past[layer])
    x = sum(x, out) // (T, C)
    x = sum(x, mlp(model, layer, norm(model, `h.${layer}.ln_2`, x))) // (T, C)
    layers.push(made)
  }
  return { layers, final: norm(model, "ln_f", x) }
}

/** The probability of every token (n_vocab,) after the last one of a run. */
export function predict({ config: { n_embd: C }, weights: W }, { final }) {
  return softmax(linear(final.slice(-C), W["lm_head.weight"] ?? W["wte.weight"], null, C))
}

/** The `count` likeliest tokens with their probabilities, the first of equal ones first. */
export function likeliest(probabilities, count) {
  const ids = Array.from(probabilities.keys())
  return ids.sort((a, b) => probabilities[b] - probabilities[a] || a - b).slice(0, count)
    .map((id) => ({ id, probability: probabilities[id] }))
}

/** The ids that follow, one by one, each the likeliest: a generator, as each takes a while. With
 * the mask on, keys and values are reused; without it every token may attend to the new token.
 *
 * @param {Model} model @param {number[]} ids */
export function* continuation(model, ids, causal = true) {
  let run = forward(model, ids, { causal })
  for (let all = ids; ;) {
    const [{ id }] = likeliest(predict(model, run), 1)
    yield id
    all = [...all, id]
    if (all.length > model.config.n_positions) return
    run = causal ? forward(model, [id], { past: run.layers }) : forward(model, all, { causal })
  }
}
