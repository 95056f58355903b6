// State chosen in the browser: it is in the address, the parts of the page draw it, and the server
// reads it from there before its next response.

// The most characters that the server keeps of an address: see app/address.py.
const LONGEST_ADDRESS = 6000

// The values not sent to the server yet, and the page's parts with their callbacks.
const stateOf = (page) => page.gpt2viz_state ??= { pending: new Map(), parts: new Map() }

/** Register a part of the page for as long as it exists. `changed` draws changes, texts of the
 * address by name, null for none. `offers` says whether the part can draw such changes: false if
 * only the server can, undefined if they don't concern it. `pointed` highlights what another part
 * points at.
 *
 * @typedef {Record<string, string | null>} Changes
 * @typedef {(changes: Changes) => boolean | void} Offers
 * @typedef {{layer?: number, head?: number, query: number | null}} At
 * @typedef {{offers?: Offers, changed?: (changes: Changes) => unknown,
 *   pointed?: (at: At) => unknown}} Callbacks
 * @param {{isConnected: boolean}} part @param {Callbacks} callbacks */
export function takePart(
  part, { offers = () => {}, changed = () => {}, pointed = () => {} }, page = globalThis,
) {
  presentParts(page)
  stateOf(page).parts.set(part, { offers, changed, pointed })
}

/** Highlight in all other parts what `part` points at: a query, in a head or in all; null for none.
 * @param {At} at */
export function point(at, part, page = globalThis) {
  for (const [other, { pointed }] of stateOf(page).parts)
    if (other !== part && other.isConnected) pointed(at)
}

function presentParts(page) {
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

/** Choose values in the browser if the page's parts can draw all that changes and the address has
 * room for them; return whether that is so. `drawn` are the values that the server has drawn for
 * parameters that the address lacks. */
export function choose(changes, drawn = {}, page = globalThis) {
  const parts = presentParts(page), offers = parts.map((part) => part.offers(changes))
  const search = withChanges(page.location.search, changes)
  if (offers.includes(false) || !offers.includes(true) || !fits(search)) return false
  const { pending: values } = stateOf(page), before = new URLSearchParams(page.location.search)
  for (const [name, now] of Object.entries(changes)) {
    const inAddress = before.get(name)
    const known = { inAddress, drawn: drawn[name] ?? inAddress }
    values.set(name, { ...values.get(name) ?? known, now })
  }
  page.history.pushState({}, "", `${search}` ? `?${search}` : page.location.pathname)
  for (const { changed } of parts) changed(changes)
  return true
}

/** The current value: as chosen here, else as the server has `drawn` it. */
export function current(name, drawn, page = globalThis) {
  const { pending: values } = stateOf(page)
  return values.has(name) ? values.get(name).now : drawn
}

/** By name, the values not sent to the server yet: the value `inAddress` then (null for none), what
 * the server has `drawn`, and what is chosen `now`. */
export const pending = (page = globalThis) => stateOf(page).pending

/** Make Streamlit send the address to the server, as the browser's Back does; return whether there
 * was something to send. */
export function sendPending(page = globalThis) {
  const values = pending(page)
  if (!values.size) return false
  values.clear()
  page.dispatchEvent(new PopStateEvent("popstate"))
  return true
}

/** Make the parts draw the server's state, whose response is on its way: the browser has gone back
 * or forward. */
export function dropPending(page = globalThis) {
  const values = pending(page)
  const drawn = Object.fromEntries([...values].map(([name, value]) => [name, value.drawn]))
  values.clear()
  if (Object.keys(drawn).length) for (const { changed } of presentParts(page)) changed(drawn)
}

/** A component's `send`, after pending values: Streamlit takes a moment to read the address. */
export const sender = (send, page = globalThis) => (...message) => {
  if (sendPending(page)) setTimeout(send, 0, ...message)
  else send(...message)
}
