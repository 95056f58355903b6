// The search runs in a worker, and Chromium starts none for a page from the disk: there a hidden
// frame stands in for it. Handed messages by events, as its own postMessage answers to this page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<body><script>
        const load = (src) => new Promise((done, failed) => {
          const script = document.createElement("script")
          Object.assign(script, { src, onload: done, onerror: failed })
          document.body.append(script)
        })
        window.importScripts = async (...all) => { for (const src of all) await load(src) }
        window.postMessage = (data) => window.answer(data)
      </script>`
      this.ready = new Promise((done) => (this.frame.onload = done)).then(() => {
        const inside = this.frame.contentWindow
        inside.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
        return new Promise((done, failed) => {
          const script = inside.document.createElement("script")
          Object.assign(script, { src: url, onload: () => done(inside), onerror: failed })
          inside.document.body.append(script)
        })
      })
      document.body.append(this.frame)
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
