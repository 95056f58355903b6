// The weights of every head, sent once: the message stays the same whichever head is chosen, and
// Streamlit doesn't send again what a browser has.

import { opened } from "./message.js"

let kept = { name: "", values: null }

/** The weights (heads of all layers, queries, keys) of that name; null where they aren't here. */
export const weightsOf = (name) => name && kept.name === name ? kept.values : null

export default function ({ data }) {
  const { head, buffer, at } = opened(data)
  kept = { name: head.name, values: new Float32Array(buffer, at) }
}
