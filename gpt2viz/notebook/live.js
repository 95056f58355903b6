// The page that runs the model itself: from a sentence to every head's attention.

import { fixed, make } from "../app/scripts/make.js"
import { shade } from "../app/scripts/matrix.js"
import { decimalsOf, inflate, panelsOf, rangeOf } from "../app/scripts/matrices.js"
import { edges, pooled } from "../app/scripts/pooling.js"
import { continuation, forward, likeliest, predict, softmax } from "./network.js"
import { bytesOf, readWeights } from "./packed.js"
import { tokenizer } from "./tokenizer.js"

// Cells along a side of a small picture, and the codes of cells without a colour from 0 to 1.
const SMALL = 40, SHADES = 253, MASKED = 253, NAN = 254
// Links and next tokens in a list, and how many tokens are generated at once.
const LISTED = 5, NEXT = 5, MORE = 10
// Milliseconds to wait after the last letter typed.
const PAUSE = 250

const percent = (share) =>
  share < .0005 ? "<0.1 %" : `${(100 * share).toFixed(share < .1 ? 1 : 0)} %`
const signed = (value) => value === -Infinity ? "−∞" : fixed(value, 4)

/** The masked cells of a matrix (T, T): of each query, the keys after it. */
export const hiddenIn = (T, causal) => (n) => causal && n % T > Math.floor(n / T)

/** For each token the heads that attend most to another token but the first, as computed in
 * analysis/top_attention.py: head, key and weight. */
export function strongestLinks(layers, T) {
  const heads = layers.flatMap(({ heads: all }) => all)
  return Array.from({ length: T }, (_, query) => {
    const links = heads.map(({ weights }, head) => {
      const row = weights.subarray(query * T, (query + 1) * T)
      const best = row.reduce((most, weight, key) =>
        key && key !== query && weight > (most < 0 ? 0 : row[most]) ? key : most, -1)
      return [head, best, best < 0 ? 0 : row[best]]
    })
    return links.filter(([, key]) => key >= 0).sort((a, b) => b[2] - a[2]).slice(0, LISTED)
      .map(([head, key, weight]) => [head, key, weight.toFixed(2)])
  })
}

// The attention of a run, as notebook/attention.js draws it.
function attentionOf({ about, run: { layers }, names, causal, chosen, token }) {
  const T = names.length, { attention } = about, cut = edges(T, SMALL), hidden = hiddenIn(T, causal)
  const small = layers.flatMap(({ heads }) => heads.map(({ weights }) =>
    pooled(weights, hidden, T, cut, cut)))
  const cells = small.flatMap(({ shown, hidden: masked }) => shown.map((weight, n) =>
    masked[n] ? MASKED : Number.isNaN(weight) ? NAN : Math.round((SHADES - 1) * weight)))
  const starts = cut.slice(0, -1), ends = starts.map((start) => names[start])
  const map = { ...attention.map, rows: ends, columns: ends, tokens: names, keys: names, starts,
    links: strongestLinks(layers, T), positions: [...names.keys()] }
  return { ...attention, map, chosen, token, queries: names, keys: names,
    cells: Uint8Array.from(cells), hidden: causal && { whole: hidden, blocks: hidden },
    layers: layers.map(() => ({ rows: T, columns: T, low: 0, step: 0, error: 0 })),
    bytesOf: (layer) => new Uint8Array(Float32Array.from(
      layers[layer].heads.flatMap(({ weights }) => [...weights])).buffer) }
}

// Draw stages of the chosen head side by side, with the chosen query and key framed.
function picture(view, header) {
  const { run, names, causal, query, key, hs } = view, T = names.length, [layer, head] = at(view)
  const made = run.layers[layer].heads[head], parts = header.panels.map(({ name }) => made[name])
  const grids = header.panels.map(({ grid }, n) => {
    const shared = header.grids[grid]
    const pairs = parts[n].length === T * T && shared.columnTitle === "key"
    const row = header.panels[n].name === "k" || header.panels[n].name === "v" ? key : query
    const columns = pairs ? names : Array.from({ length: hs }, (_, i) => `${i}`)
    return { ...shared, rows: names, columns, rowEnds: shared.rowEnds.length ? names : [],
      columnEnds: pairs && shared.columnEnds.length ? names : [],
      frame: pairs ? [query, query, key, key] : [row, row, 0, hs - 1] }
  })
  const panels = header.panels.map((panel, n) => {
    const scale = panel.quantity === "attention weight" ? "unit" : "signed"
    const [low, high] = rangeOf({ scale, least: 0 }, parts[n])
    return { ...panel, grid: n, low, high }
  })
  const hidden = parts.flatMap((values, n) => Array.from(values, (_, cell) =>
    view.about.masked.includes(header.panels[n].name) && hiddenIn(T, causal)(cell)))
  return { ...header, panels: panelsOf({ grids, panels }), values: parts.flatMap((x) => [...x]),
    masked: (n) => hidden[n], legend: hidden.some(Boolean) ? header.legend : [],
    alt: `${header.alt} of layer ${layer}, head ${head}.`,
    decimals: decimalsOf(Math.max(...panels.map(({ high }) => high))) }
}

/** @returns {[number, number]} the chosen layer and head */
const at = ({ chosen, about: { config: { n_head } } }) =>
  [Math.floor(chosen / n_head), chosen % n_head]

/** The arithmetic of the chosen cell's weight, from the query's and the key's numbers. */
export function writtenSum({ run, names, causal, query, key, hs, about, scheme }, [layer, head]) {
  const { q, k, scores, scaled_scores, masked_scores, weights } = run.layers[layer].heads[head]
  const T = names.length, cell = query * T + key, { scale, query: blue, key: orange, ink } =
    about.sum[scheme], rowOf = (x, row) => x.subarray(row * hs, (row + 1) * hs)
  const ofQuery = rowOf(q, query), ofKey = rowOf(k, key)
  const strip = (name, token, values, color) => {
    const peak = values.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1
    return { kind: "strip", name, token, ink: color, cells: Array.from(values, (x, n) => [
      `rgb(${shade(scale, x / (2 * peak) + .5).join(" ")})`, `dimension ${n}: ${signed(x)}`]) }
  }
  const result = (name, value, model) =>
    ({ kind: "result", name, value: signed(value), model: signed(model) })
  const hidden = hiddenIn(T, causal)(cell), divisor = about.config.divisors[layer]
  const products = Float64Array.from(ofQuery, (x, n) => x * ofKey[n])
  const score = products.reduce((a, b) => a + b, 0), row = query * T
  const others = softmax(masked_scores.subarray(row, row + T))
  return [
    strip("q", names[query], ofQuery, blue),
    strip("k", names[key], ofKey, orange),
    { kind: "arrow", text: "q × k in each dimension" },
    strip("q × k", "", products, ink),
    { kind: "arrow", text: `the sum of ${hs} products` },
    result("Raw score q·k", score, scores[cell]),
    { kind: "arrow", text: `÷ ${signed(divisor)}` },
    result("Scaled score", score / divisor, scaled_scores[cell]),
    { kind: "arrow", text: hidden ? "masked, as this key comes after the query"
      : causal ? "not masked: this key does not come after the query" : "the mask is off" },
    { kind: "arrow", text: "softmax over the query's row" },
    result("Attention weight", others[key], weights[cell]),
  ]
}

function drawInside(view) {
  const scheme = view.scheme = view.dark.matches ? "dark" : "light"
  const { page, draw, about } = view, [layer, head] = at(view)
  page.querySelector("[data-part=inside]").textContent = `Inside layer ${layer}, head ${head}`
  for (const [name, header] of Object.entries(about.rows[scheme]))
    draw.tiles({ data: picture(view, header), setTriggerValue: (_, sent) => chooseCell(view, sent),
      parentElement: page.querySelector(`[data-row=${name}]`) })
  page.querySelector("[data-part=cell]").textContent =
    `One cell in full: query ${view.names[view.query]}, key ${view.names[view.key]}`
  draw.sum({ data: { parts: writtenSum(view, at(view)) }, parentElement: page })
}

// A click on Q chooses a query, on K or V a key, and on a pair both.
function chooseCell(view, { panel, row, column }) {
  if (panel === "k" || panel === "v") view.key = row
  else view.query = row
  if (view.about.ofPairs.includes(panel)) view.key = column
  drawInside(view)
}

function drawNext(view) {
  const list = (probabilities) => likeliest(probabilities, NEXT).map(({ id, probability }) => {
    const item = make("li")
    make("b", item, view.labels[id])
    item.append(` ${percent(probability)}`)
    make("i", item, "", "bar").style.width = `${100 * probability}%`
    return item
  })
  const { page, causal, ids, model, probabilities } = view
  page.querySelector("[data-part=next]").replaceChildren(...list(probabilities))
  const masked = page.querySelector("[data-part=masked]")
  page.querySelector("[data-part=with]").hidden = causal
  masked.replaceChildren(...causal ? [] : list(predict(model, forward(model, ids))))
}

// Read the sentence in the field, and draw everything again.
async function read(view) {
  const { page, model, about: { config } } = view, text = view.field.value
  const ids = view.encode(text), note = page.querySelector("[data-part=problem]")
  note.textContent = !text.isWellFormed() ? "This text has half of a character. Delete it."
    : !ids.length ? "Type a sentence."
      : ids.length > config.n_positions
        ? `These are ${ids.length} tokens; this model reads ${config.n_positions} at most.` : ""
  if (note.textContent) return
  if (ids.length === config.n_positions)
    note.textContent = `${ids.length} tokens are all that this model reads: no more can follow.`
  view.causal = page.querySelector("[data-part=causal]").checked
  const run = forward(model, ids, view)
  Object.assign(view, { ids, run, names: ids.map((id, n) => `${n} ${view.labels[id]}`),
    probabilities: predict(model, run) })
  const last = ids.length - 1
  Object.assign(view, { token: last, query: last, key: hardest(view, last) })
  drawNext(view)
  await drawHeads(view)
  drawInside(view)
}

function hardest(view, query) {
  const [layer, head] = at(view), T = view.names.length
  const row = view.run.layers[layer].heads[head].weights.subarray(query * T, (query + 1) * T)
  return row.indexOf(Math.max(...row))
}

async function drawHeads(view) {
  const attention = attentionOf(view)
  if (view.open) return view.open.replace(attention)
  view.open = await view.draw.attention(view.page, view.draw, attention)
  view.open.view.port = { postMessage: ([layer, head, query, key]) => {
    view.chosen = layer * view.about.config.n_head + head
    if (query !== null) view.query = view.token = query
    view.key = key ?? hardest(view, view.query)
    drawInside(view)
  } }
}

// Generate some tokens, and show each as soon as it is there.
async function generate(view, button) {
  button.disabled = true
  await read(view) // it may have just been edited
  const all = [...view.ids], next = continuation(view.model, all, view.causal)
  for (let n = 0; n < MORE && all.length < view.about.config.n_positions; n++) {
    const { value } = next.next()
    if (!view.decode([value])) break // the end of a text
    all.push(value)
    view.field.value = view.decode(all)
    await new Promise((done) => { setTimeout(done) })
  }
  button.disabled = false
  await read(view)
}

function listen(view) {
  const { page, field } = view, part = (name) => page.querySelector(`[data-part=${name}]`)
  let timer
  field.addEventListener("input", () => {
    clearTimeout(timer)
    timer = setTimeout(() => read(view), PAUSE)
  })
  part("causal").addEventListener("change", () => read(view))
  part("examples").addEventListener("change", ({ target }) => {
    field.value = target.value
    read(view)
  })
  part("more").addEventListener("click", ({ target }) => generate(view, target))
  view.dark = matchMedia("(prefers-color-scheme: dark)")
  view.dark.addEventListener("change", () => drawInside(view))
}

export default async function (page, draw) {
  const text = (part) => page.querySelector(`[data-part=${part}]`).text
  const about = JSON.parse(text("about")), { config, lengths } = about
  const inflated = (part) => inflate(bytesOf(text(part), lengths[part]))
  const weights = await readWeights(about, text)
  const labels = JSON.parse(new TextDecoder().decode(await inflated("labels")))
  const merges = new Int32Array((await inflated("merges")).buffer)
  const view = { page, draw, about, labels, model: { config, weights },
    chosen: about.attention.chosen, hs: config.n_embd / config.n_head,
    field: page.querySelector("[data-part=sentence]"),
    ...tokenizer({ letters: about.letters, merges: Array.from({ length: merges.length / 3 },
      (_, n) => [...merges.subarray(3 * n, 3 * n + 3)]) }) }
  listen(view)
  await read(view)
  page.documentElement.dataset.ready = ""
}
