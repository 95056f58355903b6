// Answers kept in the browser. What it has and the server doesn't know yet is sent once; whatever
// either knows is kept.

const NAME = "gpt2viz-textbook"
let forgotten = 0
const read = () => {
  try { return JSON.parse(localStorage.getItem(NAME)) ?? {} } catch { return {} }
}
export default function ({ data, setTriggerValue }) {
  const kept = data.forgotten > forgotten ? {} : read()
  forgotten = data.forgotten
  const all = {}
  let more = false
  for (const [chapter, ids] of Object.entries(data.answered)) {
    const others = Array.isArray(kept[chapter]) ? kept[chapter] : []
    all[chapter] = [...new Set([...ids, ...others.filter((id) => data.known.includes(id))])]
    more ||= all[chapter].length > ids.length
  }
  try { localStorage.setItem(NAME, JSON.stringify(all)) } catch { /* the browser keeps nothing */ }
  if (more && !data.read) setTriggerValue("found", all)
}
