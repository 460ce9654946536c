"use strict";
// What page.py packed: base 85 (with "," for "<"), gzip inside.
const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
const values = new Uint8Array(128);
[...LETTERS].forEach((letter, value) => { values[letter.charCodeAt(0)] = value; });

function bytesOf(text) {
  const n = text.length, lacking = (5 - n % 5) % 5, bytes = new Uint8Array((n + lacking) / 5 * 4);
  for (let from = 0, to = 0; from < n; from += 5, to += 4) {
    let number = 0;
    for (let k = 0; k < 5; k++) number = number * 85 + (from + k < n ? values[text.charCodeAt(from + k)] : 84);
    bytes[to] = number / 2 ** 24; bytes[to + 1] = number >>> 16; bytes[to + 2] = number >>> 8; bytes[to + 3] = number;
  }
  return bytes.subarray(0, bytes.length - lacking);
}

async function unpacked(id) {
  const bytes = bytesOf(document.getElementById(id).textContent);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function run(code) {
  const script = document.createElement("script");
  script.textContent = code;
  document.body.append(script);
}

Promise.all([unpacked("plotly"), unpacked("report-data")]).then(([plotly, text]) => {
  window.reportData = JSON.parse(text);
  run(plotly);
  run(document.getElementById("page-script").textContent);
  document.documentElement.dataset.state = "ready";
});
