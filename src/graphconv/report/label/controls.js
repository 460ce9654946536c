// Mouse, keys, buttons and signing in; loaded last, it begins.
"use strict";

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
