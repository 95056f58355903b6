import assert from "node:assert/strict"
import { test } from "node:test"

import { handed } from "../../gpt2viz/app/components/handed.js"

test("a script is had by all who wait for it and by all who come later", async () => {
  const page = {}
  const early = handed("one", page).script
  handed("one", page).give("script")
  assert.equal(await early, "script")
  assert.equal(await handed("one", page).script, "script")
})

test("whoever waits for another script gets none of it", async () => {
  const page = {}
  handed("one", page).give("script")
  const none = new Promise((done) => { setTimeout(done, 5, "none") })
  assert.equal(await Promise.race([handed("other", page).script, none]), "none")
})
