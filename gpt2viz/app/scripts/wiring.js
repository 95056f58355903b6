// Heads in a grid with edges between them, as a figure: see figure.js. An edge is
// [sender, receiver, into, …], a head [layer, head].

// For edges into queries, keys and values: role and dash, the receiver's side where they arrive, in
// heads, and the preferred position of the letter along the edge.
const USES = {
  q: { into: "queries", role: "query", dash: "dash", side: -.1, letter: .52 },
  k: { into: "keys", role: "key", dash: "solid", side: 0, letter: .62 },
  v: { into: "values", role: "value", dash: "dot", side: .1, letter: .72 },
}
// Pixels from layer to layer, the fewest and the most; and the size of a head.
const NARROW = 52, WIDE = 96, HEAD = 26
// Pixels: a letter's circle, and from head to head in a narrow picture.
const CIRCLE = 16, COLUMN = 56
// The widths of the strongest and of the thinnest edge, and the number of steps between.
const WIDEST = 6, THINNEST = 1.2, WIDTHS = 5
// Points that an edge is drawn with: the pointer can hit each.
const POINTS = 15

const headNamed = ([layer, head]) => `${layer}.${head}`
const edgeNamed = ([sender, receiver, into]) =>
  `${headNamed(sender)}:${headNamed(receiver)}:${into}`

/** Edges, their letters and the heads. The `customdata` of a letter is its edge's name, as the
 * address has it. */
export function figureOfWiring({ n_layer, n_head, wires, chosen, colors }) {
  const row = Math.min(WIDE, Math.max(NARROW, Math.floor(400 / n_layer)))
  const heads = Array.from({ length: n_layer * n_head },
    (_, n) => [Math.floor(n / n_head), n % n_head])
  const stands = chosen && edgeNamed(chosen), most = Math.max(...wires.map(({ z }) => z))
  const drawn = wires.map((wire) => ({ ...wire, name: edgeNamed(wire.edge), into: wire.edge[2],
    curve: curveOf(wire.edge, row), width: Math.max(1, Math.round(wire.z / most * WIDTHS)) }))
  const letters = freePositions(drawn, heads, row), background = colors.unit[0][1], data = []
  for (const [into, use] of Object.entries(USES)) {
    const color = colors[use.role], line = { color, width: 3, dash: use.dash }
    data.push(...edges(drawn.filter((wire) => wire.into === into), stands, line),
      { x: [null], y: [null], mode: "lines", line,
        name: `${into.toUpperCase()}: into ${use.into}` })
  }
  for (const [into, { role }] of Object.entries(USES)) {
    const mine = drawn.map((wire, n) => ({ ...wire, at: letters[n] }))
      .filter((wire) => wire.into === into)
    if (mine.length) data.push({ ...ends(mine.map(({ at }) => at)), mode: "markers+text",
      text: mine.map(() => into.toUpperCase()),
      marker: { size: CIRCLE, color: background, line: { color: colors[role], width: 1 } },
      customdata: mine.map(({ name }) => name), hovertext: mine.map(({ hover }) => hover),
      showlegend: false })
  }
  data.push(grid(heads, chosen?.slice(0, 2).map(headNamed) ?? [], background, colors))
  const layers = axis("layer", n_layer)
  return { data, layout: {
    xaxis: axis("head", n_head), yaxis: { ...layers, range: [n_layer - .55, -.45] },
    height: 70 + row * n_layer, margin: { t: 30 }, legend: { itemclick: false } } }
}

const ends = (points) => ({ x: points.map(([x]) => x), y: points.map(([, y]) => y) })

const axis = (title, count) => ({ title, tickvals: [...Array(count).keys()],
  ticktext: Array.from({ length: count }, (_, n) => `${n}`), range: [-.55, count - .45] })

// The edges of one use, a trace for each width, the thinnest first; the one that stands out alone.
function edges(wires, stands, line) {
  const traces = []
  for (const faint of [true, false]) for (let width = 1; width <= WIDTHS; width++) {
    const some = wires.filter((wire) => wire.width === width && (wire.name !== stands) === faint)
    if (some.length) traces.push({ mode: "lines", showlegend: false,
      ...ends(some.flatMap(({ curve }) => [...curve, [null, null]])),
      line: { ...line, width: THINNEST + (WIDEST - THINNEST) * (width - 1) / (WIDTHS - 1) },
      opacity: faint && stands ? .5 : 1,
      hovertext: some.flatMap(({ hover }) => [...Array(POINTS).fill(hover), ""]) })
  }
  return traces
}

// An edge from below its sender to its own side of its receiver. It leaves and arrives vertically,
// and bends aside if it would cross heads between them.
function curveOf([[a, b], [c, d], into], row) {
  const room = HEAD / 2 / row, start = [b, a + room], end = [d + USES[into].side, c - room]
  const pull = .45 * (end[1] - start[1]), aside = c - a > 1 ? .45 * (end[0] >= b ? 1 : -1) : 0
  const by = [start, [b + aside, start[1] + pull], [end[0] + aside, end[1] - pull], end]
  return Array.from({ length: POINTS }, (_, n) => {
    const t = n / (POINTS - 1), u = 1 - t, weights = [u ** 3, 3 * u * u * t, 3 * u * t * t, t ** 3]
    return [0, 1].map((side) => by.reduce((sum, point, k) => sum + weights[k] * point[side], 0))
  })
}

// The position of each edge's letter on it: apart from heads and other letters if there is room,
// else as far from them as possible.
function freePositions(wires, heads, row) {
  const result = [], centres = heads.map(([layer, head]) => [head, layer])
  const nearest = ([x, y], others) => Math.min(...others.map(([a, b]) =>
    Math.max(Math.abs(a - x) * COLUMN, Math.abs(b - y) * row)))
  for (const { curve, into } of wires) {
    const far = (n) => Math.abs(n - USES[into].letter * (POINTS - 1))
    const points = [...curve.keys()].slice(2, -2).sort((m, n) => far(m) - far(n))
      .map((n) => curve[n])
    const free = points.map((point) => Math.min(1, nearest(point, result) / CIRCLE,
      nearest(point, centres) / ((HEAD + CIRCLE) / 2)))
    result.push(points[free.indexOf(Math.max(...free))])
  }
  return result
}

// Every head; those of the chosen edge are framed.
function grid(heads, framed, background, colors) {
  const names = heads.map(headNamed), look = (on, off) =>
    names.map((name) => framed.includes(name) ? on : off)
  return { ...ends(heads.map(([layer, head]) => [head, layer])), mode: "markers+text",
    text: names,
    marker: { symbol: "square", size: HEAD, color: background,
      line: { color: look(colors.second, colors.grid), width: look(3, 1) } },
    hovertext: names.map((name) => `head ${name}`), showlegend: false }
}
