// The state that is chosen in the browser: the address says it, the parts of the page draw it, and
// the server reads it there before it answers whatever it is asked next.

// The server keeps this much of an address: see app/address.py.
const LONGEST_ADDRESS = 6000

// The values that the server hasn't been sent, and what each part of the page draws by itself.
const stateOf = (page) => page.gpt2viz_state ??= { pending: new Map(), parts: new Map() }

/** Let a part of the page take part for as long as it is there. `changed` draws what was chosen,
 * texts of the address by name, null for none. `offers` says of such changes whether the part draws
 * them: false if only the server can draw it anew, nothing if they don't concern it. `pointed`
 * lights what another part points at.
 *
 * @typedef {Record<string, string | null>} Changes
 * @typedef {(changes: Changes) => boolean | void} Offers
 * @typedef {{layer?: number, head?: number, query: number | null}} At
 * @typedef {{offers?: Offers, changed?: (changes: Changes) => unknown,
 *   pointed?: (at: At) => unknown}} Ways
 * @param {{isConnected: boolean}} part @param {Ways} ways */
export function takePart(
  part, { offers = () => {}, changed = () => {}, pointed = () => {} }, page = globalThis,
) {
  stateOf(page).parts.set(part, { offers, changed, pointed })
}

/** Light in all other parts what a `part` points at: a query, in a head or in all; null for none.
 * @param {At} at */
export function point(at, part, page = globalThis) {
  for (const [other, { pointed }] of stateOf(page).parts)
    if (other !== part && other.isConnected) pointed(at)
}

function partsOf(page) {
  const { parts } = stateOf(page)
  for (const part of parts.keys()) if (!part.isConnected) parts.delete(part)
  return [...parts.values()]
}

function withChanges(search, changes) {
  const result = new URLSearchParams(search)
  for (const [name, value] of Object.entries(changes))
    if (value === null) result.delete(name)
    else result.set(name, value)
  return result
}

const fits = (search) =>
  [...search].reduce((sum, pair) => sum + pair.join("").length, 0) <= LONGEST_ADDRESS

/** Choose values here where the page's parts draw all that these change, and the address has room
 * for them; whether they do. `drawn` are those that the server has drawn where the address says
 * nothing. */
export function choose(changes, drawn = {}, page = globalThis) {
  const parts = partsOf(page), offers = parts.map((part) => part.offers(changes))
  const search = withChanges(page.location.search, changes)
  if (offers.includes(false) || !offers.includes(true) || !fits(search)) return false
  const { pending: values } = stateOf(page), before = new URLSearchParams(page.location.search)
  for (const [name, now] of Object.entries(changes)) {
    const said = before.get(name), known = { said, drawn: drawn[name] ?? said }
    values.set(name, { ...values.get(name) ?? known, now })
  }
  page.history.pushState({}, "", `${search}` ? `?${search}` : page.location.pathname)
  for (const { changed } of parts) changed(changes)
  return true
}

/** The value that holds: what was chosen here, else what the server has `drawn`. */
export function current(name, drawn, page = globalThis) {
  const { pending: values } = stateOf(page)
  return values.has(name) ? values.get(name).now : drawn
}

/** By name, what the server hasn't been sent: what its address `said` (null for nothing), what it
 * has `drawn`, and what is chosen `now`. */
export const pending = (page = globalThis) => stateOf(page).pending

/** Have Streamlit send the server what the address says, as the browser's Back does; whether there
 * was something to send. */
export function sendPending(page = globalThis) {
  const values = pending(page)
  if (!values.size) return false
  values.clear()
  page.dispatchEvent(new PopStateEvent("popstate"))
  return true
}

/** Have the parts draw what the server has drawn, whose answer is on its way: the browser has gone
 * back or forward. */
export function dropPending(page = globalThis) {
  const values = pending(page)
  const drawn = Object.fromEntries([...values].map(([name, value]) => [name, value.drawn]))
  values.clear()
  if (Object.keys(drawn).length) for (const { changed } of partsOf(page)) changed(drawn)
}

/** A component's `send` after what is pending: Streamlit takes the address over in a moment. */
export const sender = (send, page = globalThis) => (...message) => {
  if (sendPending(page)) setTimeout(send, 0, ...message)
  else send(...message)
}
