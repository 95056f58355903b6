// The weights of every head, which one component brings to the page for those that draw a head.

/** Keep the weights (heads of all layers, queries, keys) that have a name, in place of others. */
export function keepWeights(name, values, page = globalThis) {
  page.gpt2viz_weights = { name, values }
}

/** The weights of that name; null where they aren't here. */
export function weightsOf(name, page = globalThis) {
  const kept = page.gpt2viz_weights
  return name && kept?.name === name ? kept.values : null
}
