// How far a job in progress is, and how long it will still take.
import {bar, bytes, count, duration, el} from "./dom.js";

const kWindow = 60;  // seconds over which speed is measured

const samples = new Map();  // [seconds, done], by job and stage
const last = new Map();     // what was said of a stage last, by job

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
  const mine = (samples.get(name) ?? []).filter(([t]) => now - t <= kWindow);
  mine.push([now, progress.done]);
  samples.set(name, mine);
  const [t, done] = mine[0];
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

// What it waits for before it begins; "": for no other job.
export const wait_text = (job) =>
  job.waits_for_job ? `waits for job ${job.waits_for_job.job}: ${job.waits_for_job.why}` : "";

// An element for a job in progress.
export function progress_box(job) {
  const now = performance.now() / 1000, said = progress_of(job);
  // Between two epochs nothing is said; what was said last still holds.
  if (said.stage || !last.has(job.job)) last.set(job.job, said);
  const progress = last.get(job.job);
  const rest = progress.stage ? left(`${job.job} ${progress.stage}`, progress, now) : undefined;
  return el("div", {class: "running"},
    el("strong", {}, `Job ${job.job}: ${job.kind}`),
    bar(progress.stage ? progress.done / progress.total : undefined, "progress"),
    el("span", {}, wait_text(job) || progress.text || "waits for its stores"),
    el("span", {class: "muted"}, left_text(job, progress, rest)));
}
