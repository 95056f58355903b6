// Times the model of a page in its own scripts: node live_times.js PAGE ROUNDS prints medians in
// seconds as JSON.
import { modelOf } from "./live_model.js"
import { continuation, forward, predict } from "../../gpt2viz/notebook/network.js"

const [page, rounds] = process.argv.slice(2), { model } = await modelOf(page)
const ids = (count) => Array.from({ length: count }, (_, n) => 7 * n % 4000)

function median(action) {
  const times = Array.from({ length: Number(rounds) + 2 }, () => {
    const start = performance.now()
    action()
    return (performance.now() - start) / 1000
  }).slice(2).sort((a, b) => a - b) // without the first two, which compile
  return times[Math.floor(times.length / 2)]
}

const whole = (count) => () => predict(model, forward(model, ids(count)))
const writing = continuation(model, ids(64))
writing.next()
console.log(JSON.stringify({
  "10 tokens, with what comes next": median(whole(10)),
  "64 tokens": median(whole(64)),
  "256 tokens": median(whole(256)),
  "one token more after 64": median(() => writing.next()),
}))
