// Answers kept in the browser. What it has and the server doesn't know yet is sent once; whatever
// either knows is kept.

const NAME = "gpt2viz-textbook"
let forgotten = 0

function read() {
  try { return JSON.parse(localStorage.getItem(NAME)) ?? {} } catch { return {} }
}

// The answers of each chapter that the server has, and those that were kept of questions that
// there are.
export function together({ answered, known }, kept) {
  return Object.fromEntries(Object.entries(answered).map(([chapter, ids]) => {
    const others = Array.isArray(kept[chapter]) ? kept[chapter] : []
    return [chapter, [...new Set([...ids, ...others.filter((id) => known.includes(id))])]]
  }))
}

export default function ({ data, setTriggerValue }) {
  const all = together(data, data.forgotten > forgotten ? {} : read())
  forgotten = data.forgotten
  try { localStorage.setItem(NAME, JSON.stringify(all)) } catch { /* the browser keeps nothing */ }
  const more = Object.keys(all).some((chapter) =>
    all[chapter].length > data.answered[chapter].length)
  if (more && !data.read) setTriggerValue("found", all)
}
