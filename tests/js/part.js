// An element of a page as a plain object, as far as the scripts use it.
export class Part {
  constructor(tag) {
    this.classes = new Set()
    Object.assign(this, { tag, children: [], attributes: {}, dataset: {}, isConnected: true,
      className: "", textContent: "",
      style: { setProperty() {} }, offsetTop: 0, scrollLeft: 0, scrollWidth: 0, clientWidth: 0,
      classList: { toggle: (name, on) => this.classes[on ? "add" : "delete"](name) } })
  }
  append(...parts) { this.children.push(...parts) }
  replaceChildren() { this.children = [] }
  setAttribute(name, value) { this.attributes[name] = value }
  removeAttribute(name) { delete this.attributes[name] }
  addEventListener(kind, listen) { this[`on${kind}`] = listen }
  getBoundingClientRect() { return { left: 0, right: 0 } }
  get text() { return this.textContent + this.children.map((part) => part.text ?? part).join("") }
  all(tag) {
    return this.children.flatMap((part) =>
      [...part.tag === tag ? [part] : [], ...part.all?.(tag) ?? []])
  }
}
