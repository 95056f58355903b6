import assert from "node:assert/strict"
import { test } from "node:test"

import { leadsTo, round } from "../../gpt2viz/app/components/keyboard/component.js"

const PARTS = ["first", "middle", "last"]

test("Tab goes from the end of a popover to its beginning, and back with Shift", () => {
  assert.equal(round(PARTS, "last", false), "first")
  assert.equal(round(PARTS, "first", true), "last")
})

test("between the ends the browser knows where Tab goes", () => {
  assert.equal(round(PARTS, "middle", false), undefined)
  assert.equal(round(PARTS, "first", false), undefined)
  assert.equal(round(PARTS, "last", true), undefined)
})

test("Tab stays in a popover that has nothing to go to", () => {
  assert.equal(round([], "body", false), null)
  assert.equal(round(["one"], "one", true), "one")
})

test("a link leads to the page at its path, whatever it carries", () => {
  assert.ok(leadsTo("inside_head?layer=1", "/inside_head"))
  assert.ok(leadsTo("./inside_head", "/behind/a/proxy/inside_head"))
  assert.ok(leadsTo("?text=a", "/") && leadsTo("./?text=a", "/proxy/"))
  assert.ok(!leadsTo("inside_head", "/inside_head_2") && !leadsTo("inside_head", "/"))
})
