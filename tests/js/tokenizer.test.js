import assert from "node:assert/strict"
import { test } from "node:test"

import { tokenizer } from "../../gpt2viz/notebook/tokenizer.js"

const letters = Array.from({ length: 256 }, (_, byte) => byte)
const id = (char) => char.charCodeAt(0)
// "ab" is learned before "bc", and "abc" last of all.
const merges = [[id("a"), id("b"), 256], [id("b"), id("c"), 257], [256, id("c"), 258]]
const { encode, decode } = tokenizer({ letters, merges })

test("merges are applied in the order learned, and never across a space", () => {
  assert.deepEqual(encode("abc bc"), [258, id(" "), 257])
  assert.deepEqual(encode("a bc"), [id("a"), id(" "), 257])
})

test("texts with multi-byte characters round-trip", () => {
  for (const text of ["abc", "", "ü 🙂\ufeff", "\n a  b"])
    assert.equal(decode(encode(text)), text)
  assert.equal(decode([0xf0]), "\ufffd", "a part of a character")
})
