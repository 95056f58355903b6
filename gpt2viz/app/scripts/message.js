// What the canvases are sent: `message` and `packed` in pictures/canvas.py write it.

/** A message's JSON header, the buffer, and where in it the numbers begin. */
export function opened(bytes) {
  const { buffer } = bytes.slice()
  const length = new DataView(buffer).getUint32(0, true)
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)))
  return { head, buffer, at: 4 + length }
}

/** Matrices: the header, the numbers, and one bit a cell for what is masked. Panels that share
 * their names have one `grid`. Where they are a part of a text, the `whole` ones may come after. */
export function readMatrices(bytes) {
  const { head, buffer, at } = opened(bytes)
  const { end, ...drawn } = matricesAt(head, buffer, at)
  const whole = head.wholes && { ...head.wholes, ...matricesAt(head.wholes, buffer, end) }
  return { ...head, ...drawn, whole }
}

/** The panels of a header with their grids' names, and where the numbers of each begin. */
export function panelsOf(head) {
  let count = 0
  return head.panels.map((panel) => {
    const grid = head.grids[panel.grid], start = count
    count += grid.rows.length * grid.columns.length
    return { ...grid, ...panel, start }
  })
}

// The matrices whose numbers begin at a byte of a message, and where the next ones would.
function matricesAt(head, buffer, at) {
  const panels = panelsOf(head), { start, rows, columns } = panels.at(-1)
  const count = start + rows.length * columns.length
  const values = new Float32Array(buffer, at, count)
  const bits = new Uint8Array(buffer, at + 4 * count)
  return { panels, values, masked: (n) => bits[n >> 3] >> (n & 7) & 1,
    end: at + 4 * count + 4 * Math.ceil(count / 32) }
}
