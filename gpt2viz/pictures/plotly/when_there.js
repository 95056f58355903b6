// Waits for plotly.js: VS Code shows small outputs first, and so a figure before the plotly.js that
// another cell brings. The script that draws the figure replaces the call.
/* global figure */
(function draw() {
  if (!window.Plotly) return setTimeout(draw, 100)
  figure()
})()
