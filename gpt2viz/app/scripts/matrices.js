// Matrices as numbers: reads the canvases' messages (written by `message` in pictures/canvas.py),
// and crops parts of a text as the server would: `pictures/pooling.py` does the same.

/** A message's JSON header, its buffer, and the offset of the numbers in it. */
export function openMessage(bytes) {
  const { buffer } = bytes.slice()
  const length = new DataView(buffer).getUint32(0, true)
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)))
  return { head, buffer, at: 4 + length }
}

/** Deflated bytes in base64, inflated (RFC 1950). */
export const inflated = (text) =>
  inflate(Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0)))

/** Inflate deflated bytes (RFC 1950). */
export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

/** Read matrices: the header, the numbers, and a mask of one bit per cell. Panels with the same
 * names share a `grid`. After those of a part of a text, the `whole` ones may follow. */
export function readMatrices(bytes) {
  const { head, buffer, at } = openMessage(bytes)
  const { end, ...drawn } = matricesAt(head, buffer, at)
  const whole = head.wholes && { ...head.wholes, ...matricesAt(head.wholes, buffer, end) }
  return { ...head, ...drawn, whole }
}

/** The panels of a header with their grids' names, and the index of their first numbers. */
export function panelsOf(head) {
  let count = 0
  return head.panels.map((panel) => {
    const grid = head.grids[panel.grid], start = count
    count += grid.rows.length * grid.columns.length
    return { ...grid, ...panel, start }
  })
}

/** Reads the n-th of bits that are packed into bytes, the first one lowest. */
export const bitsOf = (bytes) => (n) => bytes[n >> 3] >> (n & 7) & 1

// The matrices whose numbers begin at a byte of a message, and the offset after them.
function matricesAt(head, buffer, at) {
  const panels = panelsOf(head), { start, rows, columns } = panels.at(-1)
  const count = start + rows.length * columns.length
  const values = new Float32Array(buffer, at, count)
  return { panels, values, masked: bitsOf(new Uint8Array(buffer, at + 4 * count)),
    end: at + 4 * count + 4 * Math.ceil(count / 32) }
}

/** Parse the address's part: [first query, stop, first key, stop]; null if it is all of a text of
 * `end` tokens, or not a part of it. */
export function parsePart(chosen, end) {
  const part = (chosen ?? "").split(",").map(Number), [a, b, c, d] = part
  const right = 0 <= a && a < b && b <= end && 0 <= c && c < d && d <= end && part.length === 4
  return right && !(b - a === end && d - c === end) ? part : null
}

/** A part as it is in the address; null for the whole. */
export const formatPart = (part) => part ? part.join(",") : null

const inTokens = (first, stop) => stop - first > 1 ? `${first} to ${stop - 1}` : `${first}`

/** A part in words. */
export const partInWords = ([a, b, c, d]) => `queries ${inTokens(a, b)}, keys ${inTokens(c, d)}`

/** The same over a picture, in full and in short: queries alone if its columns aren't keys. */
export function overPicture(part, ofKeys) {
  if (!part) return []
  const [a, b, c, d] = part
  return ofKeys ? [partInWords(part), `${a}–${b - 1} × ${c}–${d - 1}`]
    : [`tokens ${inTokens(a, b)}`, `${a}–${b - 1}`]
}

// The cells that hold the tokens between two positions, whole words included: `Axis.rows_within`.
function cellsWithin(starts, first, stop) {
  const from = Math.max(0, starts.findLastIndex((start) => start <= first))
  const to = starts.findIndex((start) => start >= stop)
  return [from, Math.max(from + 1, to < 0 ? starts.length : to)]
}

// The first and last framed cell of a side, among those shown: all if nothing is chosen, null if
// the chosen token isn't shown.
function framedOn(starts, [from, to], chosen) {
  if (chosen === null) return [0, to - from - 1]
  if (chosen < starts[from] || to < starts.length && chosen >= starts[to]) return null
  const cell = starts.slice(from, to).findLastIndex((start) => start <= chosen)
  return [cell, cell]
}

function framedIn({ row, column }, down, across) {
  if (row === null && column === null) return null
  const [first, second] = [framedOn(...down, row), framedOn(...across, column)]
  return first && second && [...first, ...second]
}

// A grid with the names of a part, and the rows and columns of the whole that it covers.
function gridOf(grid, { rows: [down, short], columns: [across, shortest] }, zooms, part) {
  const [a, b, c, d] = part ?? []
  const rows = part ? cellsWithin(down, a, b) : [0, down.length]
  const cut = part && grid.columnTitle === "key"
  const columns = cut ? cellsWithin(across, c, d) : [0, across.length]
  const ends = (all, names, labels, shown) =>
    all.length ? (names.length > zooms.few ? names : labels.slice(...shown)) : []
  const names = { rows: grid.rows.slice(...rows), columns: grid.columns.slice(...columns) }
  return { shown: [rows, columns], grid: { ...grid, ...names,
    rowEnds: ends(grid.rowEnds, names.rows, short, rows),
    columnEnds: ends(grid.columnEnds, names.columns, shortest, columns),
    frame: framedIn(zooms, [down, rows], [across, columns]) } }
}

/** The numbers and masks of the cells in the rows and columns shown of every panel, and the index
 * of each panel's first cell. */
export function cellsOf({ panels, values, masked }, shown) {
  const count = shown.reduce((sum, [rows, columns]) =>
    sum + (rows[1] - rows[0]) * (columns[1] - columns[0]), 0)
  const numbers = new Float32Array(count), hidden = new Uint8Array(count), starts = []
  let n = 0
  panels.forEach(({ start, columns: { length } }, panel) => {
    const [rows, columns] = shown[panel]
    starts.push(n)
    for (let row = rows[0]; row < rows[1]; row++)
      for (let column = columns[0]; column < columns[1]; column++) {
        const cell = start + row * length + column
        numbers[n] = values[cell]
        hidden[n++] = masked(cell)
      }
  })
  return { values: numbers, hidden, starts }
}

/** The range that all panels share: `shared_range`. */
export function rangeOf({ scale, least }, values) {
  if (scale === "unit") return [0, 1]
  const peak = values.reduce((most, value) =>
    Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most, least) || 1
  return [scale === "amount" ? 0 : -peak, peak]
}

/** Two decimals, or as many as show two digits of the largest number. */
export const decimalsOf = (high) => Math.min(8, Math.max(2, 1 - Math.floor(Math.log10(high))))

/** The kinds of visible cells without a colour on the scale, panel by panel; `masked` are the names
 * of the panels' masked cells. */
export function legendOf(special, masked, { values, hidden, starts }) {
  const names = new Map()
  masked.forEach((name, panel) => {
    const seen = [false, false, false]
    for (let n = starts[panel]; n < (starts[panel + 1] ?? values.length); n++) {
      seen[0] ||= Boolean(hidden[n])
      seen[1] ||= Number.isNaN(values[n])
      seen[2] ||= !hidden[n] && Math.abs(values[n]) === Infinity
    }
    special.forEach(({ name: ofAll, color, other }, kind) =>
      seen[kind] && names.set(kind ? ofAll : name, [color, other]))
  })
  return [...names]
}

/** A token's position in the text, and its label: a name has both, unless the label is the
 * position. */
export const splitName = (name) => [parseInt(name), name.slice(name.indexOf(" ") + 1)]

/** The panels with these indices and `names` as one picture of lines; `settings` are those that
 * Python sends for lines: see components/lines.py. */
export function lineData(p, numbers, names, settings) {
  const panels = numbers.slice(0, names.length).map((n) => p.panels[n])
  const [{ rows, columns, quantity, frame }] = panels, size = rows.length * columns.length
  return { ...settings, quantity, queries: rows.map(splitName), keys: columns.map(splitName),
    chosen: frame && frame[0] === frame[1] ? frame[0] : -1,
    colors: settings.colors.slice(0, panels.length),
    matrices: panels.map(({ start }, n) => ({
      name: names[n], values: p.values.subarray(start, start + size),
      hidden: Array.from({ length: size }, (_, cell) => p.masked(start + cell)) })) }
}

// The distinct grids, and the index of each grid among them.
function distinct(grids) {
  const known = [], texts = []
  const numbers = grids.map((grid) => {
    const text = JSON.stringify(grid)
    if (!texts.includes(text)) {
      texts.push(text)
      known.push(grid)
    }
    return texts.indexOf(text)
  })
  return [known, numbers]
}

/** Crop matrices that were read to a part; null for the whole. */
export function crop(p, part) {
  const { zooms } = p, whole = p.whole ?? p
  const cut = whole.grids.map((grid, n) => gridOf(grid, zooms.axes[n], zooms, part))
  const [grids, numbers] = distinct(cut.map(({ grid }) => grid))
  const cells = cellsOf(whole, whole.panels.map(({ grid }) => cut[grid].shown))
  const { values, hidden, starts } = cells
  const [low, high] = rangeOf(zooms, values)
  const panels = whole.panels.map((panel, n) => {
    const grid = numbers[panel.grid]
    return { ...panel, ...grids[grid], grid, low, high, start: starts[n],
      part: overPicture(part, panel.columnTitle === "key") }
  })
  const [most, limit] = zooms.grows ?? []
  return { ...p, panels, grids, values, masked: (n) => hidden[n], decimals: decimalsOf(high),
    legend: zooms.legend ? legendOf(p.special, zooms.masked, cells) : [],
    tallest: most ? Math.min(most * panels[0].rows.length, limit) : p.tallest }
}

// Positions in the text of an axis' first to last shown cells: `_positions` in app/view.py.
function positionsOf(starts, [first, stop], cells) {
  const [from, to] = cellsWithin(starts, first, stop)
  const [a, b] = cells.map((cell) => from + Math.min(Math.max(cell, 0), to - from - 1))
  return [starts[a], b + 1 < to ? starts[b + 1] : stop]
}

/** The part that the n-th panel's first to last row and column cover, while it shows `part`; null
 * if they are within one cell. Columns that aren't keys choose none. */
export function draggedPart({ zooms, whole, panels }, part, n, rows, columns) {
  const [a, b, c, d] = part ?? [0, zooms.end, 0, zooms.end]
  const { grid, columnTitle } = (whole?.panels ?? panels)[n], axes = zooms.axes[grid]
  const queries = positionsOf(axes.rows[0], [a, b], rows)
  const keys = columnTitle === "key" ? positionsOf(axes.columns[0], [c, d], columns) : [c, d]
  return queries[0] < queries[1] && keys[0] < keys[1] ? [...queries, ...keys] : null
}
