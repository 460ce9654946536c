// The labelling page: what all its parts share, requests, and news from the server. Loaded before card.js,
// overview.js and controls.js. Texts from the data are only ever set as textContent.
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

// Nearly certain is not certain.
const percent = share => share < 1 && share >= .995 ? "over 99 %" : `${(100 * share).toFixed(0)} %`;
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
  state = { ...next, cameAt: performance.now() };
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
