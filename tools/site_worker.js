// Browsers start no Worker in a page that was opened as a file, so the search of the site runs in a hidden frame there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const scope = this.frame.contentWindow
      const load = address => new Promise((loaded, failed) => {
        const script = scope.document.createElement("script")
        script.src = address
        script.onload = loaded
        script.onerror = failed
        scope.document.body.append(script)
      })
      scope.importScripts = (...addresses) => addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve())
      scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
      this.loaded = load(url)
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
