import assert from "node:assert/strict"
import { test } from "node:test"

import { figureOfWiring } from "../../gpt2viz/app/scripts/wiring.js"

test("a letter names its edge as the address does, and only the chosen edge is opaque", () => {
  const edges = [[[0, 1], [2, 0], "q", null], [[0, 0], [1, 10], "q", null]]
  const wires = edges.map((edge) => ({ edge, z: 5, hover: String(edge) }))
  const colors = { query: "blue", unit: [[0, "white"]] }
  const { data } = figureOfWiring({ n_layer: 3, n_head: 11, wires, chosen: edges[1], colors })
  assert.deepEqual(data.map(({ customdata }) => customdata).filter(Boolean),
    [["0.1:2.0:q", "0.0:1.10:q"]])
  assert.deepEqual(data.map(({ opacity }) => opacity).filter(Boolean), [.5, 1])
})
