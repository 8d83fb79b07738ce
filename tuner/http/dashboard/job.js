// One job: how far it is, what it says and measures, who did what, and what can be done about it.
import {file_link, find_one, get, post} from "./api.js";
import {curves} from "./curves.js";
import {bytes, count, duration, el, empty, fact, find, long_fact, percent, say, share_bar, table, when} from "./dom.js";
import {state_badge, took} from "./jobs.js";
import {notes_form} from "./notes.js";
import {progress_box, wait_text} from "./progress.js";
import {show_trace} from "./trace.js";

const kLook = 1000;  // ms between two looks at a job that is not over
const kFigures = {
  top1: ["Top-1", percent], top5: ["Top-5", percent], val_loss: ["Validation loss", (x) => x.toFixed(4)],
  macro_f1: ["Macro F1", (x) => x.toFixed(4)], best_epoch: ["Best epoch", count], epochs: ["Epochs", count],
  classes: ["Classes", count], train_photos: ["Trained on", (n) => `${count(n)} photos`],
  val_photos: ["Validated on", (n) => `${count(n)} photos`], photos: ["Photos", count],
  labelled: ["Labelled", count], already_labelled: ["Labelled before", count], to_label: ["To be labelled", count],
  without_label: ["Without any label", count], left_out: ["Left out", (n) => `${count(n)} photos`],
  looked_at: ["Labels looked at", count], contradicted: ["Contradicted", count],
  held_out_accuracy: ["Held-out accuracy", percent],
  version: ["Version", count],
};

let looking = 0;            // the job that is looked at; 0: none
let turn = 0, next = 0;     // of looks, so that an answer that comes late is left alone; of log lines
let epochs = -1, state = "", noted = "";  // that are drawn

const can = (job) => ({
  job_pause: ["queued", "running"].includes(job.state),
  job_resume: ["paused", "failed", "cancelled"].includes(job.state),
  job_cancel: ["queued", "running", "paused"].includes(job.state),
  job_start_now: Boolean(job.waits_for) && !job.spec.deterministic,
});

function draw_facts(job) {
  const known = Object.entries(kFigures).filter(([key]) => job.result[key] !== undefined && job.result[key] !== null);
  find("job_facts").replaceChildren(
    fact("State", state_badge(job)), fact("Submitted", when(job.submitted)), fact("Took", took(job) || "not begun"),
    ...known.map(([key, [name, text]]) => fact(name, text(job.result[key]))),
    ...(job.tags.length > 0 ? [fact("Tags", job.tags.join(", "))] : []),
    ...(job.result.rule ? [long_fact("Promotion by rule", job.result.rule)] : []),
    ...(job.note ? [long_fact("Note", job.note)] : []));
}

// Not while somebody writes: only what has changed is drawn anew.
function draw_notes(job) {
  const {name, note, tags} = job, notes = JSON.stringify([job.job, name, note, tags]);
  if (notes === noted) return;
  noted = notes;
  find("job_notes").replaceChildren(notes_form(`/jobs/${job.job}`, {name, note, tags}, draw));
}

// Beside each other, so that who is slow or has much is seen.
function draw_stores(job) {
  const report = job.result.report, sent = Object.entries(report?.stores ?? {});
  const rows = report ? sent.map(([name, s]) => [name, s.row_bytes ?? 0,
    `${count(s.photos)} photos, ${bytes(s.row_bytes ?? 0)}; ${duration(s.busy_s)} of work` +
      (s.busy_s > 0 ? `, ${count(Math.round(s.photos / s.busy_s))} photos a second` : "")])
    : Object.entries(job.row_bytes_of_stores ?? {}).map(([name, n]) => [name, n, `${bytes(n)} received`]);
  const most = Math.max(1, ...rows.map(([, n]) => n));
  const waits = (job.waits_for ?? []).map((s) => el("li", {}, el("strong", {}, s.store), ` waits: ${s.why}`));
  const without = (job.result.left_out_stores ?? []).map((s) =>
    el("li", {}, el("strong", {}, s.store), ` was left out with ${count(s.photos)} photos: ${s.why}`));
  find("job_stores").replaceChildren(...(rows.length + waits.length + without.length === 0
    ? [empty("No store has sent anything yet.")]
    : [el("div", {class: "bars"}, rows.map(([name, n, text]) => share_bar(name, n / most, text))),
       el("ul", {class: "changes"}, waits, without)]));
}

// The plain values of an object.
const values_of = (json) => table([{name: "Name"}, {name: "Value"}],
  Object.entries(json).filter(([, v]) => typeof v !== "object").map(([k, v]) => [k, String(v)]));

function draw_details(job) {
  const parts = {"What was asked for": job.spec, "What came of it": job.result, "What it took": job.result.report};
  find("job_details").replaceChildren(...Object.entries(parts)
    .filter(([, json]) => Object.keys(json ?? {}).length > 0)
    .flatMap(([name, json]) => [el("h3", {}, name), el("div", {class: "scroll"}, values_of(json))]));
}

// Labels that photos contradict, the worst first.
function draw_issues(job) {
  const first = job.result.first ?? [];
  find("job_issues").hidden = first.length === 0;
  find("job_issue_list").replaceChildren(table(
    [{name: "Photo"}, {name: "Label"}, {name: "Likely", number: true}, {name: "Other photos say"}, {name: "Likely", number: true}],
    first.map((i) => [i.path, i.label, percent(i.probability), i.suggested, percent(i.suggested_probability)])));
}

function draw(job) {
  const id = `Job ${job.job}: ${job.kind}`, failed = job.state === "failed";
  find("job_title").replaceChildren(job.name ? `${id}, ${job.name}` : id);
  say("job_why", wait_text(job) || (job.state === "running" ? "" : job.message));
  find("job_why").className = failed ? "why failed" : "why";
  find("job_progress").replaceChildren(...(job.state === "running" ? [progress_box(job)] : []));
  for (const [button, may] of Object.entries(can(job))) find(button).hidden = !may;
  draw_facts(job);
  draw_notes(job);
  draw_stores(job);
  draw_issues(job);
  draw_details(job);
}

function add_to_log(lines) {
  const log = find("job_log"), at_end = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  log.append(lines.map((line) => `${line}\n`).join(""));
  if (at_end) log.scrollTop = log.scrollHeight;
}

// What a fine-tuning has measured up to now.
async function draw_curves(job) {
  const run = job.kind === "finetune" ? await find_one(`/jobs/${job.job}/run`) : null;
  if (job.job !== looking) return;
  const rows = run?.epochs ?? [];
  find("job_learning").hidden = job.kind !== "finetune";
  if (rows.length === epochs) return;
  epochs = rows.length;
  find("job_curves").replaceChildren(...(epochs > 0 ? curves(rows) : [empty("They begin with its first epoch.")]));
}

// What is there when the job is over, or has begun anew.
async function draw_files(job) {
  if (job.state === state) return;
  state = job.state;
  const reported = state === "done" && job.kind === "finetune" && job.result.val_photos > 0;
  find("job_report").replaceChildren(...(reported ? ["The whole report, a page that stands alone: ",
    file_link(`/jobs/${job.job}/report`, `job-${job.job}-report.html`)] : []));
  const trace = state === "done" ? await find_one(`/jobs/${job.job}/trace`) : null;
  if (job.job === looking) show_trace(job.job, trace);
}

async function look(mine) {
  const {lines, next: then, job} = await get(`/jobs/${looking}/log?from=${next}`);
  if (mine !== turn) return;
  next = then;
  add_to_log(lines);
  draw(job);
  await Promise.all([draw_curves(job), draw_files(job)]);
  if (["queued", "running", "paused"].includes(job.state)) setTimeout(() => look_again(mine), kLook);
}

function look_again(mine) {
  if (mine !== turn || find("job").hidden) return;
  look(mine).catch((e) => {
    say("job_said", e.message);
    setTimeout(() => look_again(mine), 5 * kLook);
  });
}

async function steer(what, done) {
  try {
    await post(`/jobs/${looking}/${what}`);
    say("job_said", done);
    await look(++turn);
  } catch (e) {
    say("job_said", e.message);
  }
}

export function set_up_job() {
  const click = (id, what, done) => find(id).addEventListener("click", () => steer(what, done));
  click("job_pause", "pause", "It is paused; what it has stays, and Resume goes on with it.");
  click("job_resume", "resume", "It goes on with what it has.");
  click("job_cancel", "cancel", "It is cancelled; Resume takes that back.");
  click("job_start_now", "start-now", "It begins without the stores that it waited for.");
}

// What somebody else does about it.
export function follow_job(jobs) {
  const job = jobs.find((j) => j.job === looking);
  if (job && state !== "" && job.state !== state) look_again(++turn);
}

export async function show_job(id) {
  if (!/^[0-9]{1,18}$/.test(id)) throw new Error(`There is no job ${id}.`);
  [looking, next, epochs, state, noted] = [Number(id), 0, -1, "", ""];
  find("job_log").replaceChildren();
  say("job_said", "");
  await look(++turn);
}
