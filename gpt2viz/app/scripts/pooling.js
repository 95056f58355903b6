// Pooling of large matrices on a page without a server, like that of pictures/pooling.py.

/** The edges of at most `most` blocks of `count` cells: each start, and the last end. */
export function edges(count, most) {
  const blocks = Math.min(count, most)
  return Array.from({ length: blocks + 1 }, (_, n) => Math.floor(n * count / blocks))
}

/** Pool a matrix that is `wide` cells wide, in blocks between edges down and across: of each the
 * number farthest from 0 that isn't masked, and whether all are masked. */
export function pooled(values, masked, wide, down, across) {
  const shown = [], hidden = []
  for (let i = 1; i < down.length; i++)
    for (let j = 1; j < across.length; j++) {
      let best = values[down[i - 1] * wide + across[j - 1]], seen = false
      for (let row = down[i - 1]; row < down[i]; row++)
        for (let n = row * wide + across[j - 1]; n < row * wide + across[j]; n++) {
          if (masked(n)) continue
          if (!seen || farther(values[n], best)) best = values[n]
          seen = true
        }
      shown.push(best)
      hidden.push(!seen)
    }
  return { shown, hidden }
}

const farther = (a, b) => Number.isNaN(a) || Math.abs(a) > Math.abs(b) || a === -b && a > b
