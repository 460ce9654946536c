// The labelling page. Texts from the data are only ever set as textContent.
"use strict";

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442"];
const DARK_COLOURS = ["#3D9BE0", ...COLOURS.slice(1, 6), "#FFFFFF", COLOURS[7]];
const ROWS = 20;

const $ = id => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const page = Array.from(crypto.getRandomValues(new Uint8Array(9)), b => b.toString(36)).join("");
const map = new PointMap($("map"), $("over"));

let state = null;        // what the server last said
let question = null;     // {node, how}: how the node shown was met
let card = null;         // what is known of that node
let yesNo = false;
let yesNoSuggested = null; // the class that a yes/no question is about
let nodes = null;        // class, confidence, labelled of every node
const shown = { map: -1, looks: -1, classes: "" }; // what is on the screen
let isAnswering = false; // an answer is on its way: the card it was about takes no other
let pressedAt = 0;       // when the last answer was given, to measure how long news take
let firstRow = 0;
let several = [];        // nodes in the lasso
let afterNaming = null;  // what to do with the name of a new class
const latencies = [];

const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const number = n => n.toLocaleString("en");
const plural = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;
// As the map's shader has it: a class beyond the colours gets one again, with another shape.
const shapeOf = k => (Math.floor(k / COLOURS.length) + k % COLOURS.length) % SHAPES;
const colour = k => (dark.matches ? DARK_COLOURS : COLOURS)[k % COLOURS.length];

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function dot(k, labelled) {
  const mark = make("span", undefined, labelled ? "dot labelled" : "dot");
  mark.style.background = k < 0 || k === 255 ? "transparent" : colour(k);
  if (k >= 0 && k !== 255) mark.classList.add(`shape-${shapeOf(k)}`);
  return mark;
}

// Requests

class Problem extends Error {}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(`api/${path}`, options);
  } catch {
    throw new Problem("The server does not answer. Is graphconv label still running?");
  }
  if (response.status === 401) { signIn(); throw new Problem("Sign in first."); }
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Problem(said.problem ?? `The server refused this (${response.status}).`);
  }
  const kind = response.headers.get("content-type") ?? "";
  return kind.startsWith("application/json") ? response.json() : response.arrayBuffer();
}

const send = (path, values) => ask(path, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(values),
});

function alarm(text) {
  $("alarm").textContent = text;
  $("alarm").hidden = !text;
}

async function trying(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    alarm(error.message);
    return null;
  }
}

// News from the server

let stream = null;

function listen() {
  stream?.close();
  stream = new EventSource("api/events");
  stream.onmessage = event => { alarmIfLost(false); show(JSON.parse(event.data)); };
  stream.onerror = () => alarmIfLost(true);
}

const LOST = "The connection is lost. Answers can't be saved until it is back.";
function alarmIfLost(lost) {
  if (lost) alarm(LOST);
  else if ($("alarm").textContent === LOST) alarm("");
}

let isRefreshing = false, isStale = false;

function show(next) {
  if (state && next.revision < state.revision) return;
  state = next;
  showProgress();
  refreshSoon();
}

// Several news at once are fetched once.
async function refreshSoon() {
  isStale = true;
  if (isRefreshing) return;
  isRefreshing = true;
  while (isStale) {
    isStale = false;
    await trying(refresh);
  }
  isRefreshing = false;
}

async function refresh() {
  const now = state;
  if (now.mapVersion !== shown.map && now.mapVersion > 0) {
    shown.map = now.mapVersion;
    map.setPlaces(new Float32Array(await ask("map")));
    $("map-status").textContent = map.works ? "" : "This browser has no WebGL 2: use the table below.";
  }
  if (now.looks !== shown.looks) {
    shown.looks = now.looks;
    const bytes = new Uint8Array(await ask("nodes")), n = now.nNodes;
    nodes = { kind: bytes.subarray(0, n), sure: bytes.subarray(n, 2 * n), labelled: bytes.subarray(2 * n) };
    map.setNodes(nodes.kind, nodes.sure, nodes.labelled);
  }
  showLegend();
  if (now.picture === now.answers && pressedAt) {
    latencies.push(performance.now() - pressedAt);
    pressedAt = 0;
  }
  // An answer on its way brings the next question; a fit under way will be news again.
  if (isAnswering || (card && now.picture !== now.answers)) return;
  await refreshCard();
  await showTable();
}

// A question that somebody else has answered makes room for another one.
async function refreshCard() {
  if (nFetched) return; // a card is on its way, perhaps one that somebody chose
  if (question?.how === "chosen") return showCard(question.node, "chosen", turn);
  return nextQuestion(turn);
}

async function nextQuestion(began = ++turn) {
  const found = (await ask(`question?page=${page}`)).question;
  if (began !== turn) return null;
  return found ? showCard(found.node, found.how, began) : showNothingLeft();
}

// The card

// What a person does comes first: whoever began before it comes too late to show a card.
let turn = 0;
let nFetched = 0; // cards that were asked for and have not come

async function showCard(node, how, began = ++turn) {
  nFetched++;
  try {
    const next = await ask(`card?node=${node}`);
    if (began === turn) putCard(next, node, how);
  } finally {
    nFetched--;
  }
}

function putCard(next, node, how) {
  const isOther = card?.node !== node;
  question = { node, how };
  card = next;
  if (isOther) yesNoSuggested = null;
  drawCard();
  map.focus = node;
  map.draw();
  if (isOther || whyOf !== `${node} ${state?.picture}`) showWhy(node);
}

function drawCard() {
  const text = { asked: "This one teaches most", random: "Drawn at random, to estimate how good it is",
    chosen: "You picked this one" };
  $("kind").textContent = card.hasModel || question.how !== "asked" ? text[question.how]
    : "Stands for many others";
  $("node-id").textContent = card.id;
  const given = card.label >= 0;
  $("given").hidden = !given;
  if (given) $("given").textContent = `Labelled ${card.classes[card.label]}` +
    (card.doubt ? `, but the others around it say ${card.classes[card.doubt.class]}` : "");
  drawClasses();
  const columns = card.columns.flatMap(([name, value]) => [make("dt", name), readable(value)]);
  $("columns").replaceChildren(...columns);
  $("n-neighbours").textContent = card.nNeighbours === 0 ? "(none)"
    : card.nNeighbours > card.neighbours.length ? `(${card.neighbours.length} of ${number(card.nNeighbours)})`
      : `(${number(card.nNeighbours)})`;
  $("neighbours").replaceChildren(...card.neighbours.map(drawNeighbour));
  for (const id of ["skip", "accept"]) $(id).disabled = false;
  $("skip").disabled = given;
  $("accept").disabled = !card.probabilities.length;
}

function drawNeighbour(other) {
  const row = make("li");
  const button = make("button", other.id);
  button.type = "button";
  button.addEventListener("click", () => trying(() => showCard(other.node, "chosen")));
  const name = other.class < 0 ? "not known yet" : card.classes[other.class];
  const about = other.labelled ? `${name}, labelled`
    : other.class < 0 ? name : `${name}, ${percent(other.confidence)} sure`;
  row.append(dot(other.class, other.labelled), button, make("span", about, "soft"));
  return row;
}

// Addresses can be followed; nothing else becomes more than text.
function readable(value) {
  const cell = make("dd");
  if (/^https?:\/\/\S+$/.test(value)) {
    const link = make("a", value);
    link.href = value; link.target = "_blank"; link.rel = "noopener noreferrer";
    cell.append(link);
  } else {
    cell.textContent = value;
  }
  return cell;
}

const likeliest = () => card.probabilities.length ? card.probabilities.indexOf(Math.max(...card.probabilities)) : -1;

function drawClasses() {
  const box = $("classes");
  const held = [...box.querySelectorAll("button")].indexOf(document.activeElement); // keeps the focus
  const best = likeliest();
  if (yesNo && best >= 0) {
    const asked = yesNoSuggested ?? best;
    yesNoSuggested = asked;
    const yes = classButton(asked, "1", () => answer(asked));
    yes.querySelector(".name").textContent = `Yes: ${card.classes[asked]}`;
    const no = make("button", undefined, "class");
    no.type = "button";
    no.append(make("kbd", "2"), dot(-1), make("span", "No", "name"));
    no.addEventListener("click", sayNo);
    box.replaceChildren(make("p", `Is it ${card.classes[asked]}?`), yes, no);
    box.querySelectorAll("button")[held]?.focus();
    return;
  }
  box.replaceChildren(...card.classes.map((_, k) => classButton(k, k < 9 ? String(k + 1) : "", () => answer(k))));
  if (!card.classes.length) box.append(make("p", "There is no class yet: press N to name the first one."));
  box.querySelectorAll("button")[held]?.focus();
}

function classButton(k, key, act) {
  const button = make("button", undefined, "class");
  button.type = "button";
  const share = card.probabilities[k];
  const bar = make("span", undefined, "bar");
  bar.style.width = `${100 * (share ?? 0)}%`;
  bar.style.background = colour(k);
  const isOut = card.possible && !card.possible.includes(k);
  button.append(bar, key ? make("kbd", key) : make("span"), dot(k), make("span", card.classes[k], "name"),
    make("span", share === undefined ? "" : percent(share), "share"));
  if (k === likeliest()) button.classList.add("likeliest");
  if (isOut) { button.classList.add("impossible"); button.title = "can be excluded, by nine in ten"; }
  button.addEventListener("click", act);
  return button;
}

let whyOf = "";
async function showWhy(node) {
  if (!whyOf.startsWith(`${node} `)) $("why").replaceChildren();
  whyOf = `${node} ${state?.picture}`;
  $("why-part").hidden = !card.hasModel;
  if (!card.hasModel) return;
  const said = await ask(`why?node=${node}`).catch(() => null);
  if (!said || card?.node !== node) return;
  $("why").replaceChildren(...said.why.map(text => make("li", text)));
}

function showNothingLeft() {
  question = null; card = null;
  $("kind").textContent = "";
  $("node-id").textContent = "Every node has a label or was skipped";
  $("given").hidden = true;
  for (const id of ["classes", "columns", "neighbours", "why"]) $(id).replaceChildren();
  for (const id of ["skip", "accept"]) $(id).disabled = true;
}

// Answers

function answer(k, name = card?.classes[k]) {
  if (card) give([card.node], name, question.how, card.id);
}

async function give(list, label, how, id) {
  if (isAnswering) return;
  isAnswering = true;
  turn++;
  pressedAt = performance.now();
  said(how === "skip" ? "Skipping …" : `Saving ${label} …`, false);
  const saved = await trying(() => send("answer", { nodes: list, label, how, page }));
  isAnswering = false;
  if (!saved) { pressedAt = 0; said("Not saved.", false); return; }
  alarm("");
  const what = list.length === 1 ? `${id} is` : `${plural(list.length, "node")} are`;
  said(how === "skip" ? `Skipped ${id}.` : `Saved: ${what} ${label}.`, true);
  if (list.includes(question?.node)) {
    if (saved.next) putCard(saved.card, saved.next.node, saved.next.how);
    else showNothingLeft();
  }
  refreshSoon();
}

function said(text, good) {
  $("saved").textContent = text;
  $("saved").classList.toggle("good", good);
}

function skip() {
  if (card && !$("skip").disabled) give([card.node], "", "skip", card.id);
}

async function undo() {
  if (isAnswering) return;
  const done = await trying(() => send("undo", { page }));
  if (!done) return;
  if (!done.undone.length) { said("There is nothing of yours to undo.", false); return; }
  said("Undone.", true);
  if (done.undone.length > 1) return;
  await trying(() => (done.how === "chosen" ? showCard(done.undone[0], "chosen") : nextQuestion()));
}

// "No" only rules a class out: the next likeliest is asked about.
function sayNo() {
  const order = card.probabilities.map((share, k) => k).sort((a, b) => card.probabilities[b] - card.probabilities[a]);
  const place = order.indexOf(yesNoSuggested);
  if (place + 1 < order.length) { yesNoSuggested = order[place + 1]; drawClasses(); } else openNaming();
}

function toggleYesNo() {
  yesNo = !yesNo;
  yesNoSuggested = null;
  $("yes-no").setAttribute("aria-pressed", yesNo);
  if (card) drawClasses();
}

function openNaming(then = name => answer(null, name)) {
  afterNaming = then;
  $("class-name").value = "";
  $("naming").showModal();
}

$("naming-form").addEventListener("submit", () => {
  const name = $("class-name").value.trim();
  if (name) afterNaming(name);
});
$("cancel-name").addEventListener("click", () => $("naming").close());

// Progress

function showProgress() {
  const s = state;
  const certain = s.classes.reduce((sum, one) => sum + one.certain, 0);
  const open = s.nNodes - s.nLabelled;
  $("headline").textContent = `${plural(s.nLabelled, "label")}, ${number(open)} nodes to go` +
    (s.age > 2 ? ` · the picture is ${Math.round(s.age)} s old` : "") + (s.who ? ` · ${s.who}` : "");
  if (s.trouble) alarm(s.trouble);
  const e = s.estimate;
  $("estimate").textContent = e ? percent(e.share) : "not known yet";
  $("estimate-about").textContent = e
    ? `between ${percent(e.low)} and ${percent(e.high)}, 95 % confidence: ${e.right} of ${e.n} random answers`
    : `one question in five is drawn at random; ${s.nRandom} answered so far`;
  $("n-labels").textContent = number(s.nAnswered);
  $("labels-about").textContent = s.classes.filter(one => one.labelled).map(one => `${one.name} ${one.labelled}`).join(", ");
  $("certain").textContent = number(certain);
  $("certain-about").textContent = s.classes.map(one => `${one.name} ${number(one.certain)} of ${number(one.nodes)}`).join(", ");
  $("changed").textContent = s.changedByTen === null ? "–" : plural(s.changedByTen, "node");
  $("changed-about").textContent = s.hasModel ? `the last answer: ${plural(s.changed, "node")}` : "";
  $("enough").textContent = s.enough;
  $("enough").hidden = !s.enough;
  document.title = `${s.nAnswered} labelled · graphconv`;
}

function showLegend() {
  const names = state.classes.map(one => one.name).join("\n");
  if (names === shown.classes) return;
  shown.classes = names;
  $("legend").replaceChildren(...state.classes.map((one, k) => {
    const row = make("li");
    row.append(dot(k), make("span", one.name));
    return row;
  }));
  const chosen = $("filter-class").value;
  $("filter-class").replaceChildren(make("option", "any"), ...state.classes.map((one, k) => {
    const option = make("option", one.name);
    option.value = String(k);
    return option;
  }));
  $("filter-class").firstChild.value = "";
  $("filter-class").value = chosen;
}

// The table

async function showTable() {
  const kind = $("filter-kind").value, [low, high] = $("filter-confidence").value.split(",");
  const found = await ask(`table?kind=${kind}&class=${$("filter-class").value}&low=${low}&high=${high}` +
    `&first=${firstRow}&n=${ROWS}`);
  const about = kind === "doubts"
    ? `${plural(found.n, "label")} that a model which has not seen them contradicts, the least likely first`
    : `${plural(found.n, "node")}, the least certain first`;
  $("table-about").textContent = found.n ? `${about}; ${firstRow + 1} to ${firstRow + found.rows.length}` : "None.";
  $("rows").replaceChildren(...found.rows.map(row => drawRow(row, kind)));
  $("earlier").disabled = firstRow === 0;
  $("later").disabled = firstRow + ROWS >= found.n;
}

function drawRow(row, kind) {
  const line = make("tr");
  const name = make("td"), open = make("button", row.id);
  open.type = "button";
  open.addEventListener("click", () => pick(row.node));
  name.append(open);
  const label = make("td");
  label.append(dot(row.class, row.labelled), row.class < 0 ? "–" : state.classes[row.class].name);
  const sure = make("td", row.class < 0 ? "" : row.labelled ? "labelled" : percent(row.confidence));
  const about = make("td", kind === "doubts"
    ? `looks like ${state.classes[row.likelier].name}; ${percent(row.share)} for the label given` : row.text);
  const act = make("td");
  if (kind === "doubts") {
    const mend = make("button", `Make it ${state.classes[row.likelier].name}`);
    mend.type = "button";
    mend.addEventListener("click", () => give([row.node], state.classes[row.likelier].name, "chosen", row.id));
    act.append(mend);
  }
  line.append(name, label, sure, about, act);
  return line;
}

// One key corrects the label that is most worth a second look.
async function correct() {
  const found = await trying(() => ask("table?kind=doubts&first=0&n=1"));
  if (!found?.rows.length) { said("No label looks doubtful.", false); return; }
  pick(found.rows[0].node);
}

function pick(node) {
  trying(() => showCard(node, "chosen")).then(() => {
    $("card").scrollIntoView({ block: "nearest" });
    $("card").focus({ preventScroll: true });
  });
}

for (const id of ["filter-kind", "filter-class", "filter-confidence"])
  $(id).addEventListener("change", () => { firstRow = 0; trying(showTable); });
$("earlier").addEventListener("click", () => { firstRow = Math.max(0, firstRow - ROWS); trying(showTable); });
$("later").addEventListener("click", () => { firstRow += ROWS; trying(showTable); });

// Search

let searched = 0;
$("query").addEventListener("input", async () => {
  const began = ++searched, text = $("query").value.trim();
  const found = text ? (await trying(() => ask(`search?q=${encodeURIComponent(text)}`)))?.found ?? [] : [];
  if (began !== searched) return;
  $("found").replaceChildren(...found.map(row => {
    const item = make("li"), button = make("button", row.text ? `${row.id}: ${row.text}` : row.id);
    button.type = "button";
    button.addEventListener("click", () => { $("search").close(); pick(row.node); });
    item.append(button);
    return item;
  }));
  $("search-status").textContent = text ? plural(found.length, "node") + " found" : "";
});
$("query").addEventListener("keydown", event => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  $("found").querySelector("button")?.click();
});

// The map

const frame = $("map");
let drag = null, lassoing = false;

function toggleLasso(on = !lassoing) {
  lassoing = on;
  $("lasso").setAttribute("aria-pressed", on);
  frame.classList.toggle("lasso", on);
}

const place = event => {
  const box = frame.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

frame.addEventListener("pointerdown", event => {
  const [x, y] = place(event);
  drag = { x, y, moved: false };
  if (lassoing || event.shiftKey) map.path = [[x, y]];
  frame.setPointerCapture(event.pointerId);
});
frame.addEventListener("pointermove", event => {
  const [x, y] = place(event);
  if (!drag) return hover(x, y);
  if (Math.hypot(x - drag.x, y - drag.y) > 3) drag.moved = true;
  if (map.path) { map.path.push([x, y]); map.draw(); return; }
  if (drag.moved) { map.pan(x - drag.x, y - drag.y); drag.x = x; drag.y = y; }
});
frame.addEventListener("pointerup", event => {
  const [x, y] = place(event), path = map.path, moved = drag?.moved;
  drag = null; map.path = null; map.draw();
  if (path && path.length > 3) return labelSeveral(map.inside(path));
  if (!moved) { const node = map.at(x, y); if (node >= 0) pick(node); }
});
frame.addEventListener("pointercancel", () => { drag = null; map.path = null; map.draw(); });
frame.addEventListener("pointerleave", () => { $("tip").hidden = true; });
frame.addEventListener("wheel", event => {
  event.preventDefault();
  map.zoom(Math.exp(-event.deltaY * 0.0015), ...place(event));
}, { passive: false });
frame.addEventListener("keydown", event => {
  const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
  if (moves[event.key]) { event.preventDefault(); map.pan(...moves[event.key]); }
  if (event.key === "+") map.zoom(1.4);
  if (event.key === "-") map.zoom(1 / 1.4);
});

let hovered = -1;
async function hover(x, y) {
  const node = map.at(x, y), tip = $("tip");
  if (node < 0) { tip.hidden = true; hovered = -1; return; }
  tip.style.left = `${Math.min(x + 14, frame.clientWidth - 160)}px`;
  tip.style.top = `${y + 12}px`;
  if (node === hovered) return;
  hovered = node;
  const kind = nodes ? nodes.kind[node] : 255;
  const about = kind === 255 ? "" : nodes.labelled[node] ? `${state.classes[kind].name}, labelled`
    : `${state.classes[kind].name}, ${percent(nodes.sure[node] / 255)} sure`;
  const found = await ask(`card?node=${node}`).catch(() => null);
  if (!found || hovered !== node) return;
  tip.textContent = about ? `${found.id}: ${about}` : found.id;
  tip.hidden = false;
}

function labelSeveral(found) {
  toggleLasso(false);
  several = found;
  if (!found.length) { said("No node is inside.", false); return; }
  $("several-about").textContent = `${plural(found.length, "node")} inside. Which class?`;
  $("several-classes").replaceChildren(...state.classes.map((one, k) => {
    const button = make("button", undefined, "class");
    button.append(make("span", undefined, "bar"), make("kbd", String(k + 1)), dot(k), make("span", one.name, "name"));
    button.addEventListener("click", () => { give(several, one.name, "chosen"); });
    return button;
  }));
  $("several").showModal();
}
$("several-new").addEventListener("click", () => {
  $("several").close();
  openNaming(name => give(several, name, "chosen"));
});

// Keys and buttons

const actions = {
  Enter: () => { if (card?.probabilities.length) answer(yesNo ? yesNoSuggested ?? likeliest() : likeliest()); },
  s: skip, u: undo, n: () => openNaming(), y: toggleYesNo, l: () => toggleLasso(), c: correct,
  "/": () => { $("search").showModal(); $("query").select(); },
  "?": () => $("help").showModal(),
};

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const dialog = document.querySelector("dialog[open]");
  const typing = event.target.matches("input, select, textarea");
  if (dialog) {
    if (dialog.id === "several" && /^[1-9]$/.test(event.key))
      $("several-classes").children[Number(event.key) - 1]?.click();
    return;
  }
  if (typing) return;
  // Enter and the space bar press the button that has the focus.
  if (event.key === "Enter" && event.target.matches("button, a")) return;
  if (/^[1-9]$/.test(event.key) && card) {
    event.preventDefault();
    $("classes").querySelectorAll("button")[Number(event.key) - 1]?.click();
    return;
  }
  const act = actions[event.key] ?? actions[event.key.toLowerCase()];
  if (act) { event.preventDefault(); act(); }
});

const press = (id, act) => $(id).addEventListener("click", act);
press("accept", actions.Enter); press("skip", skip); press("undo", undo);
press("new-class", () => openNaming()); press("yes-no", toggleYesNo); press("lasso", () => toggleLasso());
press("open-search", actions["/"]); press("open-help", actions["?"]);
press("zoom-in", () => map.zoom(1.5)); press("zoom-out", () => map.zoom(1 / 1.5));
press("reset", () => map.reset());
press("layout", () => { $("map-status").textContent = "Laying out again …"; trying(() => send("layout", {})); });
press("finish", async () => {
  $("finish").disabled = true;
  said("Writing the model, the predictions and the report …", false);
  const done = await trying(() => send("finish", {}));
  $("finish").disabled = false;
  said(done ? `Written to ${done.output}: model, predictions.csv and report.html.` : "No model was written.", Boolean(done));
});

// Signing in

function signIn() { if (!$("login").open) $("login").showModal(); }
$("login").addEventListener("cancel", event => event.preventDefault());
$("login-form").addEventListener("submit", async event => {
  event.preventDefault();
  try {
    await send("login", { name: $("login-name").value, password: $("login-password").value });
    $("login-password").value = "";
    $("login").close();
    alarm("");
    begin();
  } catch (error) {
    $("login-problem").textContent = error.message;
  }
});

function setColours() {
  map.setColours(dark.matches ? DARK_COLOURS : COLOURS, dark.matches ? [1, 1, 1] : [0, 0, 0]);
  shown.classes = null;
  if (state) showLegend();
  if (card) drawCard();
}
dark.addEventListener("change", setColours);

async function begin() {
  setColours();
  const first = await trying(() => ask("state"));
  if (!first) return;
  show(first);
  listen();
}

begin();
