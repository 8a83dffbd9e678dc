// Browsers start no workers for pages opened from a disk. There, the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      const waiting = [];
      this.postMessage = (data) => waiting.push(data);
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) =>
        urls.reduce((before, one) => before.then(() => load(inside, one)), Promise.resolve());
      load(inside, url).then(() => {
        this.postMessage = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
        waiting.forEach(this.postMessage);
      });
      this.terminate = () => frame.remove();
    }
  };
}

function load(inside, url) {
  return new Promise((done, failed) => {
    const script = inside.document.createElement("script");
    script.src = new URL(url, document.baseURI);
    script.onload = done;
    script.onerror = failed;
    inside.document.body.appendChild(script);
  });
}
