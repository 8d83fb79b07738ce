// Several fine-tunings beside each other: in what they were asked differently, and what came of it.
import {find_one, get} from "./api.js";
import {chart} from "./curves.js";
import {count, el, empty, find, percent, table} from "./dom.js";
import {state_badge} from "./jobs.js";

const kMost = 6;  // that have a colour each
let turn = 0;
const kFigures = [
  ["Top-1", "top1", percent], ["Top-5", "top5", percent], ["Macro F1", "macro_f1", (x) => x.toFixed(4)],
  ["Validation loss", "val_loss", (x) => x.toFixed(4)], ["Best epoch", "best_epoch", count], ["Epochs", "epochs", count],
  ["Trained on", "train_photos", (n) => `${count(n)} photos`], ["Published as", "version", (n) => `version ${n}`]];

const text_of = (value) => (value === undefined ? "–" : typeof value === "string" ? value || "–" : JSON.stringify(value));
const short = (text) => (/^[0-9a-f]{64}$/.test(text) ? text.slice(0, 12) : text);  // of a digest its beginning

// The keys of the specs that are not the same in all, by name: [[key, value, …]].
export function differences(specs) {
  const keys = [...new Set(specs.flatMap((s) => Object.keys(s)))].sort();
  return keys.map((key) => [key, ...specs.map((s) => text_of(s[key]))])
    .filter(([, first, ...rest]) => rest.some((v) => v !== first))
    .map(([key, ...values]) => [key, ...values.map(short)]);
}

// Rows by epoch with the value of each job: [{epoch, "0": …, "1": …}].
function merged(runs, key) {
  const rows = new Map();
  runs.forEach((run, i) => (run?.epochs ?? []).forEach((r) =>
    rows.set(r.epoch, {...rows.get(r.epoch), epoch: r.epoch, [i]: r[key]})));
  return [...rows.values()].sort((a, b) => a.epoch - b.epoch);
}

function draw_choice(jobs, chosen) {
  if (find("compare_choice").childElementCount !== jobs.length) {
    find("compare_choice").replaceChildren(...jobs.map((j) => el("label", {class: "check"},
      el("input", {type: "checkbox", value: j.job, change: choose}), j.name ? `${j.job}, ${j.name}` : String(j.job))));
  }
  for (const box of find("compare_choice").querySelectorAll("input")) {
    box.checked = chosen.includes(Number(box.value));
    box.disabled = !box.checked && chosen.length >= kMost;
  }
}

const choose = () => {
  const ticked = [...find("compare_choice").querySelectorAll("input:checked")].map((n) => n.value);
  history.replaceState(null, "", `#compare/${ticked.join()}`);
  show_compare(ticked.join());
};

// `names`: jobs, as "1,3"; without them the last two.
export async function show_compare(names) {
  const mine = ++turn;  // only what was asked for last is shown
  const jobs = (await get("/jobs")).filter((j) => j.kind === "finetune");
  if (mine !== turn) return;
  const wanted = names === undefined ? jobs.slice(-2).map((j) => j.job) : names.split(",").map(Number);
  const chosen = jobs.filter((j) => wanted.includes(j.job)).slice(0, kMost);
  draw_choice(jobs, chosen.map((j) => j.job));
  if (chosen.length < 2) {
    find("compare_curves").replaceChildren();
    return find("compare_table").replaceChildren(empty(jobs.length < 2
      ? "There are no two fine-tunings yet." : "Tick two fine-tunings or more."));
  }
  const runs = await Promise.all(chosen.map((j) => find_one(`/jobs/${j.job}/run`)));
  if (mine !== turn) return;
  const heads = [{name: ""}, ...chosen.map((j) => ({name: j.name ? `Job ${j.job}, ${j.name}` : `Job ${j.job}`}))];
  const figures = kFigures.map(([name, key, text]) =>
    [name, ...chosen.map((j) => (j.result[key] == null ? "–" : text(j.result[key])))]);
  const said = [["Tags", (j) => j.tags.join(", ")], ["Note", (j) => j.note]]
    .filter(([, text]) => chosen.some((j) => text(j) !== ""))
    .map(([name, text]) => [name, ...chosen.map((j) => text(j) || "–")]);
  find("compare_table").replaceChildren(table(heads, [["State", ...chosen.map(state_badge)], ...said, ...figures,
    ...differences(chosen.map((j) => j.spec)).map(([key, ...values]) => [el("code", {}, key), ...values])]));
  const lines = chosen.map((j, i) => ({key: String(i), name: `job ${j.job}`, kind: `of_${i}`}));
  find("compare_curves").replaceChildren(...[["Validation loss", "val_loss"], ["Validation top-1", "val_top1"]]
    .map(([title, key]) => chart(title, merged(runs, key), lines)).filter((c) => c));
}
