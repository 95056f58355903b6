// Brings the weights of every head to the page, once: the message stays the same whichever head is
// chosen, and Streamlit doesn't send what a browser has. Draws nothing.

import { keepWeights } from "../every_head.js"
import { opened } from "../message.js"

export default function ({ data }) {
  const { head, buffer, at } = opened(data)
  keepWeights(head.name, new Float32Array(buffer, at))
}
