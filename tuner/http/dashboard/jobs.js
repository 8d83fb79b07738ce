import {find_one} from "./api.js";
import {badge, bar, bytes, count, duration, el, empty, find, table, when} from "./dom.js";
import {show_trace} from "./trace.js";

const kHeads = [
  {name: "Job"}, {name: "Kind"}, {name: "State"}, {name: "Began"},
  {name: "Took", number: true}, {name: ""}];
const kKinds = {running: "busy", done: "good", failed: "bad", cancelled: "warn"};
const kWindow = 60;  // seconds over which speed is measured

let stage = "", samples = [];  // [seconds, done] of the stage in progress
let last = {job: 0, progress: null};

// How far a job is: rows while they come, then what it does with them.
export function progress_of(job) {
  const doing = /^(.*): (\d+) of (\d+) (\S+)$/.exec(job.doing || "");
  const epoch = doing && /^epoch (\d+)\/(\d+)$/.exec(doing[1]);
  if (job.photos > 0 && job.rows < job.photos) {
    return {stage: "rows", done: job.rows, total: job.photos,
      text: `${count(job.rows)} of ${count(job.photos)} photos, ${bytes(job.row_bytes)} received` +
        (job.doing ? `; ${job.doing}` : "")};
  }
  if (epoch) {
    const done = Number(epoch[1]) - 1 + Number(doing[2]) / Math.max(1, Number(doing[3]));
    return {stage: "training", done, total: Number(epoch[2]), text: job.doing};
  }
  if (doing && Number(doing[3]) > 0) {
    return {stage: doing[1], done: Number(doing[2]), total: Number(doing[3]), text: job.doing};
  }
  return {stage: "", text: job.doing || (job.photos > 0 ? `has all ${count(job.photos)} photos` : "")};
}

// Seconds, or undefined while nobody can say.
export function left(name, progress, now) {
  if (stage !== name) [stage, samples] = [name, []];
  samples = samples.filter(([t]) => now - t <= kWindow);
  samples.push([now, progress.done]);
  const [t, done] = samples[0];
  if (now - t < 2 || progress.done <= done) return undefined;
  return (progress.total - progress.done) * (now - t) / (progress.done - done);
}

// Whether nothing that takes long comes after this step. What a training will take after the rows,
// or after one run of several, nobody knows.
export function is_last(job, progress) {
  return job.kind === "relabel" ? progress.stage === "rows"
    : progress.stage === "training" && job.runs === 1;
}

export function left_text(job, progress, rest) {
  if (rest === undefined) return "";
  return `about ${duration(rest)} left of ${is_last(job, progress) ? "the job" : "this step"}`;
}

function show_running(job) {
  if (!job) return find("running").replaceChildren();
  const now = performance.now() / 1000, said = progress_of(job);
  // Between two epochs nothing is said; what was said last still holds.
  if (said.stage || last.job !== job.job) last = {job: job.job, progress: said};
  const progress = last.progress;
  const rest = progress.stage ? left(`${job.job} ${progress.stage}`, progress, now) : undefined;
  find("running").replaceChildren(el("div", {class: "running"},
    el("strong", {}, `Job ${job.job}: ${job.kind}`),
    bar(progress.stage ? progress.done / progress.total : undefined, "progress"),
    el("span", {}, progress.text || "waits for its stores"),
    el("span", {class: "muted"}, left_text(job, progress, rest))));
}

const took = (job) =>
  !job.started ? "" : duration((job.ended || Date.now() / 1000) - job.started);

let traced = 0, chosen = false;

async function trace(job) {
  traced = job;
  const found = await find_one(`/jobs/${job}/trace`).catch(() => null);
  if (traced === job) show_trace(job, found);
}

function cells(job) {
  const why = ["failed", "done"].includes(job.state) && job.message;
  return [String(job.job), job.kind,
    [badge(job.state, kKinds[job.state]), why ? el("span", {class: "why"}, why) : null],
    when(job.started), took(job),
    job.state !== "done" ? "" : el("button", {class: "small", click: () => {
      chosen = true;
      trace(job.job);
      find("trace_title").scrollIntoView({behavior: "smooth"});
    }}, "Trace")];
}

export function show_jobs(jobs) {
  show_running(jobs.find((j) => j.state === "running"));
  find("jobs").replaceChildren(jobs.length === 0
    ? empty("No job yet. Begin with ", el("code", {}, "ndtrain job submit"), ".")
    : table(kHeads, jobs.map(cells)));
  const newest = jobs.find((j) => j.state === "done")?.job ?? 0;
  if (newest === 0 && traced === 0) show_trace(0, null);
  if (newest !== 0 && newest !== traced && !chosen) trace(newest);
}
