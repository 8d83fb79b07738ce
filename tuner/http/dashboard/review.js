// Photos for a person to look at: half drawn at random, half the least certain.
import {find_one, put} from "./api.js";
import {agreement, badge, count, el, find, percent} from "./dom.js";
import {load_ahead, whole_photo} from "./photos.js";
import {chosen, of_task} from "./task.js";

const kSample = 100, kChoices = 9, kSaid = "ndtrain review classes";
let sample = null, at = 0, classes = [], picked = 0, answered = 0, saving = false, of = "";

// The same tab draws the same photos again, less those that were answered.
function seed() {
  const kept = sessionStorage.getItem("ndtrain review") ?? String(Math.floor(Math.random() * 2 ** 48));
  sessionStorage.setItem("ndtrain review", kept);
  return kept;
}

// Those that were said in this tab, first said first: where there are more than keys, they have one.
const said = () => JSON.parse(sessionStorage.getItem(kSaid) ?? "[]").filter((name) => classes.includes(name));

function remember(name) {
  if (!classes.includes(name)) classes.push(name);
  if (!said().includes(name)) sessionStorage.setItem(kSaid, JSON.stringify([...said(), name]));
}

function in_order() {
  return classes.length <= kChoices ? classes : [...said(), ...classes.filter((name) => !said().includes(name))];
}

// Names that fit what is typed, those that begin with it first; what is typed itself if it is new.
function choices() {
  const typed = find("review_class").value.trim(), low = typed.toLowerCase();
  const rank = (name) => (name.toLowerCase().startsWith(low) ? 0 : 1);
  const fit = in_order().filter((c) => c.toLowerCase().includes(low) && (typed || c !== sample[at]?.label))
    .sort((a, b) => rank(a) - rank(b)).slice(0, kChoices)
    .map((name) => ({name, fresh: false}));
  return typed && !classes.includes(typed) ? [...fit, {name: typed, fresh: true}] : fit;
}

function draw_choices() {
  const all = sample?.[at] ? choices() : [];
  picked = Math.min(picked, Math.max(0, all.length - 1));
  const typing = document.activeElement === find("review_class");
  find("review_choices").replaceChildren(...all.map((c, i) =>
    el("li", {}, el("button", {class: typing && i === picked ? "small picked" : "small", click: () => answer(c.name)},
      i < kChoices && !typing ? el("kbd", {}, String(i + 1)) : "", c.name,
      c.fresh ? badge("new class", "warn") : ""))));
}

function draw() {
  const row = sample[at];
  for (const id of ["accept", "skip", "review_class"]) find(id).disabled = !row;
  find("back").disabled = at === 0;
  find("review_class").value = "";
  picked = 0;
  if (!row) {
    find("review_photo").replaceChildren(el("div", {class: "photo"}, el("span", {class: "muted"},
      sample.length === 0 ? "nothing to look at" : "all looked at")));
    find("review_place").textContent = sample.length === 0
      ? "Every photo that a model has labelled has a person's label too, or there are none yet."
      : `${count(answered)} of ${count(sample.length)} answered. Reload the page for another sample.`;
    find("review_guess").textContent = find("review_score").textContent = "";
  } else {
    find("review_photo").replaceChildren(whole_photo(row));
    find("review_place").textContent = `Photo ${at + 1} of ${sample.length}, ` +
      (row.suggested ? "which other photos contradict" : row.at_random ? "drawn at random" : "among the least certain") +
      `: ${row.path}`;
    find("review_guess").textContent = row.said ?? row.label;
    find("review_score").textContent = row.said ? "said by you"
      : row.suggested ? `is its label (${percent(row.score)}); others say ${row.suggested} (${percent(row.suggested_score)})`
      : row.score === undefined ? "says the model" : `says the model, ${percent(row.score)} sure`;
    sample.slice(at + 1, at + 4).forEach(load_ahead);
  }
  draw_choices();
}

async function draw_accuracy() {
  const accuracy = await find_one(of_task("/labels/accuracy")).catch(() => null);
  find("review_accuracy").replaceChildren(...(!accuracy
    ? [el("p", {class: "muted"}, "No version is in force yet.")]
    : [el("h4", {}, "Photos drawn at random since it was made: how good it is on the whole collection"),
      agreement(accuracy.at_random),
      el("h4", {}, "All photos that people and imports have labelled; it may be trained on them"), agreement(accuracy.all)]));
}

async function answer(name) {
  const row = sample?.[at];
  if (!row || saving) return;
  saving = true;
  try {
    await put(of_task(`/labels/${row.photo}`), {label: name, at_random: row.at_random});
    if (!row.said) ++answered;
    row.said = name;
    remember(name);
    find("review_said").textContent = `Kept: ${row.path} shows ${name}.`;
    ++at;
    find("review_class").blur();
    draw();
    draw_accuracy();
  } catch (e) {
    find("review_said").textContent = `Not kept: ${e.message}`;
  } finally {
    saving = false;
  }
}

function move(by) {
  if (saving || !sample) return;
  at = Math.max(0, Math.min(sample.length, at + by));
  find("review_said").textContent = "";
  draw();
}

function type(e) {
  const all = choices();
  if (e.key === "Escape") find("review_class").blur();
  else if (e.key === "Enter" && all[picked]) answer(all[picked].name);
  else if (e.key === "ArrowDown") picked = Math.min(all.length - 1, picked + 1);
  else if (e.key === "ArrowUp") picked = Math.max(0, picked - 1);
  else return;
  e.preventDefault();
  draw_choices();
}

function press(e) {
  if (find("review").hidden || find("token").open || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target === find("review_class")) return type(e);
  if (e.key === "Enter" && e.target.matches("button, a")) return;  // that one is meant
  const picked = sample?.[at] && choices()[Number(e.key) - 1];
  if (e.key === "Enter") answer(sample?.[at]?.said ?? sample?.[at]?.label);
  else if (e.key === "s") move(1);
  else if (e.key === "b") move(-1);
  else if (e.key === "/") find("review_class").focus();
  else if (e.key >= "1" && e.key <= "9" && picked) answer(picked.name);
  else return;
  e.preventDefault();
}

export function set_up_review() {
  const click = (id, does) => find(id).addEventListener("click", () => {
    find(id).blur();  // the keys are the page's again
    does();
  });
  click("accept", () => answer(sample[at].said ?? sample[at].label));
  click("skip", () => move(1));
  click("back", () => move(-1));
  const input = find("review_class");
  input.addEventListener("input", () => {
    picked = 0;
    draw_choices();
  });
  input.addEventListener("focus", draw_choices);
  input.addEventListener("blur", () => setTimeout(draw_choices, 150));  // a click on a choice comes first
  document.addEventListener("keydown", press);
}

export async function show_review() {
  draw_accuracy();
  if (sample?.length > 0 && of === chosen()) return;
  of = chosen();
  const [photos, stats] = await Promise.all([
    find_one(of_task("/labels/review", {n: kSample, seed: seed()})), find_one(of_task("/labels/stats"))]);
  sample = photos ?? [];
  classes = stats?.classes ?? [];
  at = answered = 0;
  draw();
}
