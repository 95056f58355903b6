// Text to token ids and back: GPT-2's byte-pair encoding (Radford et al. 2019), on ids alone.

// GPT-2 cuts a text into these pieces, which no merge crosses: a word with the space before it, a
// number, signs, white space.
const PIECE = new RegExp("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
  + " ?[^\\p{White_Space}\\p{L}\\p{N}]+|\\p{White_Space}+(?!\\P{White_Space})|"
  + "\\p{White_Space}+", "gu")

/** A tokenizer from the id of every byte and from the merges, in the order in which they were
 * learned: each has the ids of two tokens and of the token that they become. */
export function tokenizer({ letters, merges }) {
  const rank = new Map(), bytes = new Map(letters.map((id, byte) => [id, [byte]]))
  merges.forEach(([left, right, id], n) => {
    rank.set(`${left} ${right}`, { n, id })
    bytes.set(id, [...bytes.get(left), ...bytes.get(right)])
  })
  const encode = (text) => (text.match(PIECE) ?? []).flatMap((piece) =>
    merged(Array.from(new TextEncoder().encode(piece), (byte) => letters[byte]), rank))
  const read = new TextDecoder("utf-8", { ignoreBOM: true })
  const decode = (ids) => read.decode(Uint8Array.from(ids.flatMap((id) => bytes.get(id) ?? [])))
  return { encode, decode }
}

// Merge the neighbours whose pair was learned first, until no learned pair is left.
function merged(ids, rank) {
  for (;;) {
    let best = null, at = -1
    for (let n = 1; n < ids.length; n++) {
      const merge = rank.get(`${ids[n - 1]} ${ids[n]}`)
      if (merge && (!best || merge.n < best.n)) [best, at] = [merge, n - 1]
    }
    if (!best) return ids
    ids.splice(at, 2, best.id)
  }
}
