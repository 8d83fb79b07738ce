// The list of jobs.
import {badge, duration, el, empty, find, table, when} from "./dom.js";
import {progress_box, wait_text} from "./progress.js";

const kHeads = [
  {name: "Job"}, {name: "Kind"}, {name: "State"}, {name: "Began"}, {name: "Took", number: true}];
const kKinds = {running: "busy", done: "good", failed: "bad", cancelled: "warn", paused: "warn"};

export const state_badge = (job) => badge(job.state, kKinds[job.state]);
export const took = (job) =>
  !job.started ? "" : duration((job.ended || Date.now() / 1000) - job.started);

// What it came to: the reasons of one that is done are on its page.
const brief = (job) => (job.state === "done" ? job.message.split(": ")[0] : job.state === "failed" && job.message);

function cells(job) {
  const why = wait_text(job) || brief(job);
  return [el("a", {href: `#job/${job.job}`}, `Job ${job.job}`), job.kind,
    [state_badge(job), why ? el("span", {class: "why"}, why) : null], when(job.started), took(job)];
}

export function show_jobs(jobs) {
  find("running").replaceChildren(...jobs.filter((j) => j.state === "running").map(progress_box));
  find("jobs").replaceChildren(jobs.length === 0
    ? empty("No job yet. Begin with ", el("code", {}, "ndtrain job submit"), ".")
    : table(kHeads, jobs.map(cells)));
}
