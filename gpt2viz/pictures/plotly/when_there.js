// Waits for plotly.js: VS Code shows small outputs first, and so a figure before another cell's
// plotly.js. The script that draws the figure replaces the call.
/* global figure */
(function draw() {
  if (!window.Plotly) return setTimeout(draw, 100)
  figure()
})()
