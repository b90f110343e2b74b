// Search in pages that are opened as files. A browser starts no worker from a file, so an invisible
// frame stands for it: it loads the worker's script, and messages go to and fro.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((done) => (this.frame.onload = done));
      this.frame.srcdoc = `<script>
        postMessage = (message) => parent.postMessage(message, "*");
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
          new Promise((done, failed) => {
            const script = document.createElement("script");
            script.src = url; script.onload = done; script.onerror = failed;
            document.head.appendChild(script);
          })), Promise.resolve());
      <\/script><script src="${url}"><\/script>`;
      window.addEventListener("message", (event) => this.take(event));
      document.head.appendChild(this.frame);
    }

    take(event) {
      if (event.source !== this.frame.contentWindow) return;
      this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(message) {
      // The frame's own postMessage leads to this page, so that of this page is called on it.
      this.ready.then(() => window.postMessage.call(this.frame.contentWindow, message, "*"));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
