// The map: a point for every node, drawn with WebGL 2, smooth at 100,000 nodes.
// Places, classes and confidence are three buffers; zooming changes two numbers, and a new
// label uploads three bytes a node. What lies under the pointer is found in a grid of cells.
"use strict";

const SHAPES = 6;

class PointMap {
  constructor(canvas, over) {
    this.canvas = canvas;
    this.over = over;
    this.count = 0;
    this.centre = [0, 0];
    this.scale = 1;
    this.focus = -1;
    this.path = null;
    this.wanted = false;
    this.gl = canvas.getContext("webgl2", { antialias: true, alpha: true });
    if (this.gl) this.prepare();
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("webglcontextlost", event => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.prepare();
      if (this.places) this.setPlaces(this.places);
      if (this.looks) this.setNodes(...this.looks);
    });
  }

  get works() { return Boolean(this.gl); }

  prepare() {
    const gl = this.gl;
    const shader = (kind, text) => {
      const made = gl.createShader(kind);
      gl.shaderSource(made, text);
      gl.compileShader(made);
      if (!gl.getShaderParameter(made, gl.COMPILE_STATUS)) throw Error(gl.getShaderInfoLog(made));
      return made;
    };
    const program = gl.createProgram();
    gl.attachShader(program, shader(gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, shader(gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    this.uniform = name => gl.getUniformLocation(program, name);
    this.buffers = {};
    gl.bindVertexArray(gl.createVertexArray());
    [["place", 2, gl.FLOAT, false], ["kind", 1, gl.UNSIGNED_BYTE, false],
      ["sure", 1, gl.UNSIGNED_BYTE, true], ["labelled", 1, gl.UNSIGNED_BYTE, false]]
      .forEach(([name, size, type, normal]) => {
        const at = gl.getAttribLocation(program, name);
        this.buffers[name] = gl.createBuffer();
        gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
        gl.enableVertexAttribArray(at);
        gl.vertexAttribPointer(at, size, type, normal, 0, 0);
      });
    this.texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    gl.enable(gl.BLEND);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.uploadPalette();
  }

  fill(name, values) {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
  }

  setPlaces(places) {
    this.places = places;
    this.count = places.length / 2;
    if (!this.gl) return;
    this.fill("place", places);
    if (!this.looks) {
      const none = new Uint8Array(this.count);
      this.setNodes(none.slice().fill(255), none, none);
    }
    this.makeGrid();
    this.draw();
  }

  setNodes(kind, sure, labelled) {
    this.looks = [kind, sure, labelled];
    if (!this.gl) return;
    this.fill("kind", kind);
    this.fill("sure", sure);
    this.fill("labelled", labelled);
    this.draw();
  }

  setColours(colours, ink) {
    // Colour of class k in texel k; classes beyond the list use it again with another shape.
    const bytes = new Uint8Array(256 * 4).fill(150);
    colours.forEach((hex, k) => {
      for (let c = 0; c < 3; c++) bytes[4 * k + c] = parseInt(hex.slice(1 + 2 * c, 3 + 2 * c), 16);
    });
    this.colourBytes = bytes;
    this.nColours = colours.length;
    this.ink = ink;
    if (this.gl) { this.uploadPalette(); this.draw(); }
  }

  uploadPalette() {
    if (!this.colourBytes) return;
    const gl = this.gl;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, this.colourBytes);
  }

  // One drawing a frame, however much has changed.
  draw() {
    if (this.wanted || !this.gl) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.drawNow(); });
  }

  drawNow() {
    const gl = this.gl, canvas = this.canvas, ratio = devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width; canvas.height = height;
    }
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const [sx, sy] = this.stretch();
    gl.uniform2f(this.uniform("stretch"), sx, sy);
    gl.uniform2f(this.uniform("centre"), ...this.centre);
    gl.uniform1f(this.uniform("size"), this.pointSize() * ratio);
    gl.uniform3f(this.uniform("ink"), ...(this.ink ?? [0, 0, 0]));
    gl.uniform1i(this.uniform("nColours"), this.nColours ?? 8);
    // Labelled points last, so that they lie on top.
    for (const pass of [0, 1]) {
      gl.uniform1i(this.uniform("pass"), pass);
      gl.drawArrays(gl.POINTS, 0, this.count);
    }
    this.drawOver();
    this.onDrawn?.();
  }

  drawOver() {
    const over = this.over, ratio = devicePixelRatio || 1;
    over.width = this.canvas.width; over.height = this.canvas.height;
    const pen = over.getContext("2d");
    pen.scale(ratio, ratio);
    const ink = getComputedStyle(document.body).color;
    if (this.focus >= 0 && this.places) {
      const [x, y] = this.onScreen(this.focus);
      pen.strokeStyle = ink; pen.lineWidth = 2.5;
      pen.beginPath(); pen.arc(x, y, this.pointSize() / 2 + 6, 0, 2 * Math.PI); pen.stroke();
    }
    if (this.path?.length > 1) {
      pen.strokeStyle = ink; pen.lineWidth = 1.5; pen.setLineDash([5, 4]);
      pen.beginPath(); this.path.forEach(([x, y]) => pen.lineTo(x, y)); pen.closePath(); pen.stroke();
    }
  }

  pointSize() {
    const base = this.count > 50000 ? 3 : this.count > 5000 ? 5 : this.count > 500 ? 8 : 14;
    return Math.min(22, base * Math.sqrt(this.scale));
  }

  // The map is square; the frame need not be.
  stretch() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const side = Math.min(w, h) * 0.95 * this.scale;
    return [side / w, side / h];
  }

  onScreen(node) {
    const [sx, sy] = this.stretch(), { clientWidth: w, clientHeight: h } = this.canvas;
    return [(1 + (this.places[2 * node] - this.centre[0]) * sx) * w / 2,
      (1 - (this.places[2 * node + 1] - this.centre[1]) * sy) * h / 2];
  }

  inMap(x, y) {
    const [sx, sy] = this.stretch(), { clientWidth: w, clientHeight: h } = this.canvas;
    return [(2 * x / w - 1) / sx + this.centre[0], (1 - 2 * y / h) / sy + this.centre[1]];
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const [mx, my] = this.inMap(x, y);
    this.scale = Math.max(0.5, Math.min(400, this.scale * factor));
    const [nx, ny] = this.inMap(x, y);
    this.centre[0] += mx - nx; this.centre[1] += my - ny;
    this.draw();
  }

  pan(dx, dy) {
    const [sx, sy] = this.stretch(), { clientWidth: w, clientHeight: h } = this.canvas;
    this.centre[0] -= 2 * dx / w / sx; this.centre[1] += 2 * dy / h / sy;
    this.draw();
  }

  reset() { this.centre = [0, 0]; this.scale = 1; this.draw(); }

  // Nodes sorted by the cell of a grid that they lie in.
  makeGrid() {
    const n = this.count, side = this.side = Math.max(1, Math.round(Math.sqrt(n / 4)));
    const cell = new Uint32Array(n), starts = this.starts = new Uint32Array(side * side + 1);
    for (let i = 0; i < n; i++) {
      cell[i] = this.cellOf(this.places[2 * i], this.places[2 * i + 1]);
      starts[cell[i] + 1]++;
    }
    for (let c = 0; c < side * side; c++) starts[c + 1] += starts[c];
    const next = starts.slice(), sorted = this.sorted = new Uint32Array(n);
    for (let i = 0; i < n; i++) sorted[next[cell[i]]++] = i;
  }

  cellAlong(value) {
    return Math.max(0, Math.min(this.side - 1, Math.floor((value + 1) / 2 * this.side)));
  }

  cellOf(x, y) { return this.cellAlong(y) * this.side + this.cellAlong(x); }

  // The nearest node within some pixels, or -1.
  at(x, y, reach = 12) {
    if (!this.sorted) return -1;
    const [mx, my] = this.inMap(x, y), [rx, ry] = this.inMap(x + reach, y + reach);
    const dx = Math.abs(rx - mx), dy = Math.abs(ry - my);
    let best = -1, least = 1;
    for (let row = this.cellAlong(my - dy); row <= this.cellAlong(my + dy); row++)
      for (let column = this.cellAlong(mx - dx); column <= this.cellAlong(mx + dx); column++) {
        const c = row * this.side + column;
        for (let k = this.starts[c]; k < this.starts[c + 1]; k++) {
          const i = this.sorted[k];
          const gap = ((this.places[2 * i] - mx) / dx) ** 2 + ((this.places[2 * i + 1] - my) / dy) ** 2;
          if (gap < least) { least = gap; best = i; }
        }
      }
    return best;
  }

  // Nodes inside a closed path on the screen.
  inside(path) {
    const corners = path.map(([x, y]) => this.inMap(x, y)), found = [];
    for (let i = 0; i < this.count; i++) {
      const x = this.places[2 * i], y = this.places[2 * i + 1];
      let within = false;
      for (let a = 0, b = corners.length - 1; a < corners.length; b = a++) {
        const [ax, ay] = corners[a], [bx, by] = corners[b];
        if ((ay > y) !== (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax) within = !within;
      }
      if (within) found.push(i);
    }
    return found;
  }
}

const VERTEX = `#version 300 es
in vec2 place; in float kind; in float sure; in float labelled;
uniform vec2 stretch, centre; uniform float size; uniform int pass;
out float opacity; flat out int number; flat out float ring;
void main() {
  bool shown = (labelled > 0.5) == (pass == 1);
  gl_Position = shown ? vec4((place - centre) * stretch, 0, 1) : vec4(2, 2, 2, 1);
  gl_PointSize = labelled > 0.5 ? size + 5.0 : size;
  opacity = labelled > 0.5 ? 1.0 : 0.12 + 0.8 * sure;
  number = int(kind + 0.5);
  ring = labelled > 0.5 ? 4.0 / gl_PointSize : 0.0;
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in float opacity; flat in int number; flat in float ring;
uniform sampler2D palette; uniform vec3 ink; uniform int nColours;
out vec4 colour;
// Distance from the edge of a shape, below 0 inside; p from -1 to 1.
float edge(int shape, vec2 p) {
  vec2 a = abs(p);
  if (shape == 1) return max(a.x, a.y) - 0.8;
  if (shape == 2) return (a.x + a.y) - 1.0;
  if (shape == 3) return max(a.x * 0.87 + p.y * 0.5, -p.y) - 0.5;
  if (shape == 4) return max(a.x * 0.87 - p.y * 0.5, p.y) - 0.5;
  if (shape == 5) return max(min(a.x, a.y) - 0.32, max(a.x, a.y) - 0.95);
  return length(p) - 0.92;
}
void main() {
  vec2 p = (gl_PointCoord * 2.0 - 1.0) * vec2(1, -1);
  int own = number == 255 ? 0 : (number / nColours + number % nColours) % ${SHAPES};
  float d = edge(own, p);
  float soft = fwidth(p.x);
  float within = 1.0 - smoothstep(-soft, soft, d);
  if (within <= 0.0) discard;
  vec3 own_colour = number == 255 ? vec3(0.6) : texelFetch(palette, ivec2(number % nColours, 0), 0).rgb;
  float border = ring > 0.0 ? smoothstep(-ring - soft, -ring + soft, d) : 0.0;
  colour = vec4(mix(own_colour, ink, border), within * opacity);
}`;
