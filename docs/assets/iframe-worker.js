// Browsers refuse web workers to pages opened from a disk. Search needs one, so there an invisible
// frame does its work: it loads the worker's script and passes messages on.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.waiting = []; // messages that came before the script was there
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.tell(data);
      inside.importScripts = (...addresses) =>
        addresses.reduce(
          (before, one) => before.then(() => this.load(one)),
          Promise.resolve(),
        );
      this.load(address).then(() => {
        for (const data of this.waiting) this.pass(data);
        this.waiting = null;
      });
    }

    load(address) {
      const inside = this.frame.contentDocument;
      const script = inside.createElement("script");
      script.src = new URL(address, location.href);
      return new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
        inside.body.append(script);
      });
    }

    tell(data) {
      setTimeout(() => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      });
    }

    pass(data) {
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.pass(data);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
