// Text to token ids and back: byte-pair encoding as GPT-2's (Radford et al. 2019), on ids alone.

// GPT-2 cuts a text into such pieces, which no merge crosses: a word with the space before it, a
// number, signs, white space.
const PIECE = new RegExp("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
  + " ?[^\\p{White_Space}\\p{L}\\p{N}]+|\\p{White_Space}+(?!\\P{White_Space})|"
  + "\\p{White_Space}+", "gu")

/** A tokenizer of the id of every byte and of the merges, the first learned first: each the ids of
 * two tokens and of the token that they become. */
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

// Of neighbours the pair that was learned first becomes one, until none is left that was learned.
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
