// Progress, the legend, the table of nodes and the search.
"use strict";

// Progress

function showHeadline() {
  const s = state, age = ageOfPicture();
  $("headline").textContent = `${plural(s.nLabelled, "label")}, ${number(s.nNodes - s.nLabelled)} nodes to go` +
    (age > 2 ? ` · the picture is ${Math.round(age)} s old` : "") + (s.who ? ` · ${s.who}` : "");
}

// How many seconds ago the first answer came that the picture does not show.
const ageOfPicture = () => state.picture === state.answers ? 0 : state.age + (performance.now() - state.cameAt) / 1000;
// A fit of a large graph takes a while, in which there are no news.
setInterval(() => { if (state && ageOfPicture() > 0) showHeadline(); }, 1000);

function showProgress() {
  const s = state;
  const certain = s.classes.reduce((sum, one) => sum + one.certain, 0);
  showHeadline();
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
