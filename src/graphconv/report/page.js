"use strict";
const data = window.reportData;
const byId = name => document.getElementById(name);
const isDark = matchMedia("(prefers-color-scheme: dark)");
const isTouch = matchMedia("(pointer: coarse)").matches;

// Numbers of the nodes, one typed array for each column.
const column = (text, type) => new type(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
const nodes = data.nodes;
const kinds = {label: Uint32Array, truth: Uint32Array, choice: Uint16Array, confidence: Uint16Array, split: Uint8Array,
  links: Uint32Array, top: Uint16Array, topShare: Uint16Array, x: Int16Array, y: Int16Array};
for (const name in kinds) nodes[name] = column(nodes[name], kinds[name]);
const shown = data.shown === null ? null : column(data.shown, Uint32Array);
const NO_LABEL = 0xFFFFFFFF;
const splits = ["", "training", "validation", "test"];
const glyphs = ["●", "■", "◆", "▲", "▼", "✚", "✖", "★"];

// Plotly takes <b> for an instruction: names must be shown as they are.
const plain = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
// Ten-thousandths as percent; nearly certain is not certain.
const percent = share => share === 10000 ? "100 %" : `${(Math.floor(share / 10) / 10).toFixed(share < 1000 || share > 9900 ? 1 : 0)} %`;
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

function theme() {
  const style = getComputedStyle(document.documentElement);
  return name => style.getPropertyValue(`--${name}`).trim();
}
const colours = () => isDark.matches ? data.colours.dark : data.colours.light;

// A chart's colours are those of the light page; in the dark each has a counterpart.
function recoloured(value) {
  if (typeof value === "string") {
    const place = data.colours.light.indexOf(value);
    if (place >= 0) return colours()[place];
    return value === "#FFFFFF" && isDark.matches ? "#20242a" : value;
  }
  if (Array.isArray(value)) return value.every(item => typeof item === "number") ? value : value.map(recoloured);
  if (value !== null && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, recoloured(item)]));
  return value;
}

function themed(layout) {
  const look = theme(), axis = {gridcolor: look("line"), linecolor: look("line"), zerolinecolor: look("line")};
  return {
    ...layout,
    font: {...layout.font, color: look("ink")},
    hoverlabel: {bgcolor: look("card"), bordercolor: look("soft"), font: {color: look("ink"), size: 13}, align: "left"},
    xaxis: {...axis, ...layout.xaxis}, yaxis: {...axis, ...layout.yaxis},
    ...(layout.modebar === undefined ? {} : {modebar: {...layout.modebar, color: look("soft"), activecolor: look("ink")}}),
  };
}

// Where there is no room for names beside a matrix, rows have numbers and columns their numbers only.
function narrowed(name, chart) {
  if (name !== "confusion" || innerWidth > 640 || chart.layout.yaxis.ticktext === undefined) return chart;
  const brief = chart.layout.yaxis.ticktext.map((text, place) => `${text.slice(0, 11)}${text.length > 11 ? "…" : ""} ${place + 1}`);
  return {
    data: chart.data.map(trace => ({...trace, showscale: false})),
    layout: {
      ...chart.layout,
      xaxis: {...chart.layout.xaxis, ticktext: brief.map((_, place) => String(place + 1)), tickangle: 0},
      yaxis: {...chart.layout.yaxis, ticktext: brief, title: {text: ""}},
    },
  };
}

const config = {responsive: true, displaylogo: false, displayModeBar: false};
function drawCharts() {
  for (const [name, made] of Object.entries(data.charts)) {
    const chart = narrowed(name, made);
    Plotly.react(byId(name), recoloured(chart.data), themed(recoloured(chart.layout)), config);
  }
}

const describe = node => `${plain(nodes.ids[node])}<br>${plain(data.labels[nodes.label[node]])}, `
  + `${percent(nodes.confidence[node])} sure`
  + (nodes.truth[node] === NO_LABEL || nodes.truth[node] === nodes.label[node] ? ""
    : `<br>given label: ${plain(data.labels[nodes.truth[node]])}`);

let hasWebGL = false;
try { hasWebGL = Boolean(document.createElement("canvas").getContext("webgl")); } catch { /* drawn as SVG then */ }

// Of one kind in a chart: what is drawn as SVG lies below all that WebGL draws.
const kindFor = number => number > 1000 && hasWebGL ? "scattergl" : "scatter";

// One trace for each class that has a look of its own, and one for all others together.
function classTraces(list, x, y, size, type) {
  const groups = data.looks.map(() => []);
  const others = [];
  const place = new Map(data.looks.map((look, number) => [look.class, number]));
  for (const node of list) (groups[place.get(nodes.choice[node])] ?? others).push(node);
  const trace = (own, name, marker) => ({
    type, mode: "markers", name: plain(name), x: own.map(node => x[node]), y: own.map(node => y[node]),
    customdata: own, text: own.map(describe), hovertemplate: "%{text}<extra></extra>", showlegend: false,
    marker: {size, opacity: .85, line: {width: 0}, ...marker},
  });
  const traces = [trace(others, "other classes", {color: "#999999", symbol: "circle"})];
  data.looks.forEach((look, number) => traces.push(trace(groups[number], data.classes[look.class],
    {color: colours()[look.colour], symbol: data.symbols[look.shape]})));
  return traces;
}

function confidenceTraces(list, x, y, size, type) {
  const own = Array.from(list);
  return [{
    type, mode: "markers", name: "confidence",
    x: own.map(node => x[node]), y: own.map(node => y[node]), customdata: own, text: own.map(describe),
    hovertemplate: "%{text}<extra></extra>", showlegend: false,
    marker: {size, opacity: .9, line: {width: 0}, color: own.map(node => nodes.confidence[node] / 100), cmin: 0, cmax: 100,
      // What is unsure stands out, on white as on black; the bar leaves room for the buttons above it.
      colorscale: "Cividis", reversescale: isDark.matches, colorbar: {title: {text: "% sure"}, thickness: 12, len: .85, y: .44}},
  }];
}

function ring(node, x, y, type) {
  const look = theme(), has = node !== null;
  return {
    type, mode: "markers", x: has ? [x[node]] : [], y: has ? [y[node]] : [], showlegend: false,
    hoverinfo: "skip", name: "found", marker: {size: 20, symbol: "circle-open", color: look("ink"), line: {width: 3}},
  };
}

// The id of the node that was found, beside its ring and towards the middle.
function tag(node, x, y) {
  if (node === null) return [];
  const look = theme(), id = nodes.ids[node];
  return [{
    x: x[node], y: y[node], text: plain(id.length > 24 ? `${id.slice(0, 23)}…` : id), showarrow: true, arrowhead: 0, arrowcolor: look("ink"), standoff: 10,
    ax: x[node] > 0 ? -45 : 45, ay: y[node] > 0 ? 35 : -35, bgcolor: look("paper"), bordercolor: look("ink"), borderpad: 3,
    font: {size: 14, color: look("ink")},
  }];
}

const plane = more => ({
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: {family: "system-ui, sans-serif", size: 13},
  margin: {l: 8, r: 8, t: 8, b: 8}, hovermode: "closest", dragmode: isTouch ? false : "pan", modebar: {bgcolor: "rgba(0,0,0,0)"},
  uirevision: "stay",
  xaxis: {showgrid: false, zeroline: false, showticklabels: false, showline: false},
  yaxis: {showgrid: false, zeroline: false, showticklabels: false, showline: false, ...more},
});
// Named one by one: among plotly's own is one that sends the data to its makers.
const zoomable = {...config, displayModeBar: true, scrollZoom: false,
  modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]]};

let chosen = null, colouring = "class";
const hidden = new Set();
const everyone = () => Array.from(nodes.ids.keys());
const markSize = number => number > 8000 ? 3 : number > 1500 ? 5.5 : number > 300 ? 8 : 11;

function drawMap() {
  const list = shown ?? everyone(), size = markSize(list.length), type = kindFor(list.length);
  const traces = (colouring === "class" ? classTraces : confidenceTraces)(list, nodes.x, nodes.y, size, type);
  if (colouring === "class") traces.forEach((trace, number) => { trace.visible = !hidden.has(number); });
  Plotly.react(byId("map"), [...traces, ring(chosen, nodes.x, nodes.y, type)],
    {...themed(plane()), annotations: tag(chosen, nodes.x, nodes.y)}, zoomable);
}

const drawing = data.graph === null ? null
  : {x: column(data.graph.x, Int16Array), y: column(data.graph.y, Int16Array), edges: column(data.graph.edges, Uint16Array)};
const planes = () => [["map", nodes.x, nodes.y], ...(drawing === null ? [] : [["graph", drawing.x, drawing.y]])];

function drawGraph() {
  if (drawing === null) return;
  const {x, y, edges: ends} = drawing;
  const edgeX = [], edgeY = [];
  for (let end = 0; end < ends.length; end += 2) {
    edgeX.push(x[ends[end]], x[ends[end + 1]], null);
    edgeY.push(y[ends[end]], y[ends[end + 1]], null);
  }
  const list = everyone(), type = kindFor(list.length + ends.length / 4), size = markSize(list.length), trained = list.filter(node => nodes.split[node] === 1);
  const lines = {type, mode: "lines", x: edgeX, y: edgeY, hoverinfo: "skip", showlegend: false, name: "edges",
    line: {color: isDark.matches ? "rgba(200,200,200,.35)" : "rgba(90,90,90,.35)", width: 1}};
  const rings = {type, mode: "markers", x: trained.map(node => x[node]), y: trained.map(node => y[node]), hoverinfo: "skip",
    showlegend: false, name: "training nodes", marker: {size: size + 7, symbol: "circle-open", color: theme()("ink"), line: {width: 1.5}}};
  const layout = {...themed(plane({scaleanchor: "x"})), annotations: tag(chosen, x, y)};
  Plotly.react(byId("graph"), [lines, ...classTraces(list, x, y, size, type), rings, ring(chosen, x, y, type)], layout, zoomable);
}

function fillLegend() {
  const list = byId("legend");
  list.replaceChildren();
  list.hidden = colouring !== "class";
  const counts = new Map();
  for (const choice of nodes.choice) counts.set(choice, (counts.get(choice) ?? 0) + 1);
  const entries = data.looks.map((look, number) => [number + 1, data.classes[look.class], counts.get(look.class) ?? 0,
    colours()[look.colour], glyphs[look.shape]]);
  const rest = nodes.ids.length - entries.reduce((sum, entry) => sum + entry[2], 0);
  if (rest) entries.push([0, "other classes", rest, "#999999", glyphs[0]]);
  for (const [number, name, size, colour, glyph] of entries) {
    const item = document.createElement("li"), button = document.createElement("button"), mark = document.createElement("span");
    mark.textContent = glyph;
    mark.style.color = colour;
    mark.setAttribute("aria-hidden", "true");
    button.type = "button";
    button.append(mark, `${name} (${size.toLocaleString("en")})`);
    button.setAttribute("aria-pressed", String(!hidden.has(number)));
    button.addEventListener("click", () => {
      if (!hidden.delete(number)) hidden.add(number);
      button.setAttribute("aria-pressed", String(!hidden.has(number)));
      drawMap();
    });
    item.append(button);
    list.append(item);
  }
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Neighbours of all nodes in one list; where those of each node begin.
const around = data.around === null ? null
  : {counts: column(data.around.counts, Uint8Array), nodes: column(data.around.nodes, Uint32Array)};
if (around !== null) {
  let first = 0;
  around.first = Uint32Array.from(around.counts, own => { first += own; return first - own; });
}

function columnsOf(node) {
  const cells = data.columns.cells[node];
  if (cells === undefined) return [];
  const list = element("dl", undefined, "columns");
  for (let k = 0; k < cells.length; k += 2) list.append(element("dt", data.columns.names[cells[k]]), element("dd", cells[k + 1]));
  return [list];
}

function neighboursOf(node) {
  if (around === null || around.counts[node] === 0) return [];
  const list = element("ul"), number = around.counts[node], first = around.first[node];
  for (const other of around.nodes.subarray(first, first + number)) {
    const item = element("li"), button = element("button", nodes.ids[other]);
    button.type = "button";
    button.addEventListener("click", () => choose(other, false));
    const truth = nodes.truth[other], split = splits[nodes.split[other]];
    item.append(button, truth === NO_LABEL ? ` ${data.labels[nodes.label[other]]}, ${percent(nodes.confidence[other])} sure`
      : ` ${data.labels[truth]}, given${split ? ` (${split})` : ""}`);
    list.append(item);
  }
  const title = nodes.links[node] > number ? `Neighbours (${number} of ${nodes.links[node].toLocaleString("en")})` : "Neighbours";
  return [element("h4", title), list];
}

function reasonsOf(node) {
  if (Object.keys(data.why).length === 0) return [];
  const said = data.why[node], list = element("ul");
  if (said === undefined)
    return [element("p", "Why is worked out for the nodes that this page lists; graphconv explain tells it of any node.", "soft")];
  list.append(...said.map(text => element("li", text)));
  return [element("h4", "Why"), list];
}

function choose(node, scroll) {
  chosen = node;
  const panel = byId("node"), width = data.nTop;
  const label = data.labels[nodes.label[node]];
  panel.replaceChildren(element("h3", `Node ${nodes.ids[node]}`));
  panel.append(element("p", `${label === "" ? "No label" : label}, ${percent(nodes.confidence[node])} sure.`));
  for (let place = 0; place < width; place++) {
    const share = nodes.topShare[node * width + place], row = element("div", undefined, "share"), bar = element("i");
    bar.style.width = `${share / 100}%`;
    row.append(element("span", data.classes[nodes.top[node * width + place]]), bar, element("span", percent(share), "number"));
    panel.append(row);
  }
  const truth = nodes.truth[node], split = splits[nodes.split[node]];
  const facts = [count(nodes.links[node], "link")];
  if (truth !== NO_LABEL) facts.push(`given label: ${data.labels[truth]} (${truth === nodes.label[node] ? "the same" : "another"})`);
  facts.push(split ? `${split} node` : truth === NO_LABEL ? "had no label" : "in no split");
  panel.append(element("p", `${facts.join("; ")}.`, "soft"), ...columnsOf(node), ...neighboursOf(node), ...reasonsOf(node));
  panel.hidden = false;
  for (const [name, x, y] of planes()) {
    const chart = byId(name), mark = ring(node, x, y);
    // Only the ring and the tag change: the many marks stay as they are.
    Plotly.update(chart, {x: [mark.x], y: [mark.y]}, {annotations: tag(node, x, y)}, [chart.data.length - 1]);
  }
  if (scroll) byId("find").scrollIntoView();
}

let lowered = null;
function find(query) {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return [];
  lowered ??= nodes.ids.map(id => id.toLowerCase());
  const whole = [], starts = [], within = [];
  lowered.forEach((id, node) => {
    const place = id.indexOf(wanted);
    if (place < 0) return;
    (id === wanted ? whole : place === 0 ? starts : within).push(node);
  });
  return [...whole, ...starts, ...within];
}

function showMatches() {
  const query = byId("query").value, found = find(query), list = byId("matches");
  list.replaceChildren(...found.slice(0, 12).map(node => {
    const item = document.createElement("li"), button = element("button", nodes.ids[node]);
    button.type = "button";
    button.addEventListener("click", () => choose(node, false));
    item.append(button);
    return item;
  }));
  const more = found.length > 12 ? "; the first 12 are shown" : "";
  byId("search-status").textContent = query.trim() === "" ? "Type an id or a part of one."
    : found.length ? `${count(found.length, "node")} found${more}.` : `No node has an id with “${query.trim()}” in it.`;
  return found;
}

byId("query").addEventListener("input", showMatches);
byId("search").addEventListener("submit", event => {
  event.preventDefault();
  const found = showMatches();
  if (found.length) choose(found[0], false);
});
for (const button of document.querySelectorAll("button[data-node]"))
  button.addEventListener("click", () => choose(Number(button.dataset.node), true));
for (const radio of document.querySelectorAll("input[name=colour]"))
  radio.addEventListener("change", () => { colouring = radio.value; fillLegend(); drawMap(); });

// The table of labels, as a file.
const cell = text => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
byId("download")?.addEventListener("click", () => {
  const lines = nodes.ids.map((id, node) => [cell(id), cell(data.labels[nodes.label[node]]), nodes.confidence[node] / 10000].join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([["id,label,confidence", ...lines].join("\n") + "\n"], {type: "text/csv"}));
  link.download = "labels.csv";
  link.click();
  URL.revokeObjectURL(link.href);
});

function draw() { drawCharts(); fillLegend(); drawMap(); drawGraph(); }
byId("graph-section").hidden = byId("to-graph").hidden = data.graph === null;
draw();
for (const [name] of planes())
  byId(name).on("plotly_click", event => {
    const node = event.points[0].customdata;
    if (typeof node === "number") choose(node, false);
  });
isDark.addEventListener("change", draw);
matchMedia("(max-width: 640px)").addEventListener("change", drawCharts);
