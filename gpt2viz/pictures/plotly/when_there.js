// Draws once plotly.js is there: VS Code shows small outputs first, and so a figure before the
// plotly.js that another cell brings.
function whenThere(draw) {
  if (!window.Plotly) return setTimeout(whenThere, 100, draw)
  draw()
}
