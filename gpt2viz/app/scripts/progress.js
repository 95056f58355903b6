// Answers and guesses stored in the browser. Those that the server doesn't know yet are sent once;
// those of browser and server together are stored.

const NAME = "gpt2viz-textbook"
let forgotten = 0

function read() {
  try { return JSON.parse(localStorage.getItem(NAME)) ?? {} } catch { return {} }
}

// The answers of each chapter that the server has, and the stored ones to questions that still
// exist.
export function together({ answered, known }, stored) {
  return Object.fromEntries(Object.entries(answered).map(([chapter, ids]) => {
    const others = Array.isArray(stored[chapter]) ? stored[chapter] : []
    return [chapter, [...new Set([...ids, ...others.filter((id) => known.includes(id))])]]
  }))
}

// The stored guesses of rows that still exist.
export const predicted = ({ rows }, stored) =>
  Object.fromEntries(rows.filter((id) => Array.isArray(stored[id])).map((id) => [id, stored[id]]))

export default function ({ data, setTriggerValue }) {
  const stored = data.forgotten > forgotten ? {} : read()
  forgotten = data.forgotten
  const all = {
    answered: together(data, stored.answered ?? {}),
    guesses: { ...predicted(data, stored.guesses ?? {}), ...data.guesses },
  }
  try { localStorage.setItem(NAME, JSON.stringify(all)) } catch { /* the browser keeps nothing */ }
  const answered = Object.keys(data.answered).some((chapter) =>
    all.answered[chapter].length > data.answered[chapter].length)
  const guessed = Object.keys(all.guesses).length > Object.keys(data.guesses).length
  if ((answered || guessed) && !data.read) setTriggerValue("stored", all)
}
