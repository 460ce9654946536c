// The question's card, and what is answered to it.
"use strict";

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
  const text = { asked: "This one teaches most", random: "Drawn at random, to see how good the model is: it does not learn from this one",
    chosen: "You picked this one" };
  $("kind").textContent = card.hasModel || question.how !== "asked" ? text[question.how]
    : "Stands for many others";
  $("node-id").textContent = card.id;
  const given = card.label >= 0;
  $("given").hidden = !given;
  if (given) $("given").textContent = `Labelled ${card.classes[card.label]}` +
    (card.doubt ? `, but the others around it say ${card.classes[card.doubt.class]}` : "");
  drawClasses();
  $("about-possible").textContent = card.aboutPossible;
  $("about-possible").hidden = !card.aboutPossible;
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
  $("about-possible").hidden = true;
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

// One after the other, however fast the key is pressed.
let undoing = Promise.resolve();
function undo() { undoing = undoing.then(undoLast); }

async function undoLast() {
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
