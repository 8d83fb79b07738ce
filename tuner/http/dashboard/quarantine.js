// Photos that could not be read, as the newest jobs found them.
import {get} from "./api.js";
import {count, el, empty, find, table} from "./dom.js";

const kJobs = 20;  // that are looked at, the newest
const kHeads = [{name: "Store"}, {name: "Path"}, {name: "What is wrong"}, {name: "Found by"}];

const link = (job) => el("a", {href: `#job/${job}`}, `job ${job}`);
const kNamed = 1000;  // files that are no photo at all, of each store

// Each photo once, as the newest job has it: [{job, id, store, path, why}].
export function newest_of(lists) {
  const seen = new Map();
  for (const {job, photos} of lists) {
    for (const p of photos) {
      const key = `${p.store}\n${p.path || p.id}`;
      if (!seen.has(key)) seen.set(key, {job, ...p});
    }
  }
  return [...seen.values()];
}

export async function show_quarantine() {
  const jobs = (await get("/jobs")).filter((j) => j.state === "done").reverse().slice(0, kJobs);
  const lists = await Promise.all(jobs.filter((j) => j.result.left_out > 0)
    .map(async (j) => ({job: j.job, photos: await get(`/jobs/${j.job}/quarantine`)})));
  const photos = newest_of(lists), last = jobs.find((j) => j.result.left_out > 0);
  find("quarantine_note").replaceChildren(...(last ? [
    "The newest job that did without photos, ", link(last.job), `, left out ${count(last.result.left_out)}. ` +
      `Of a store with more than ${count(kNamed)} files that are no photo at all, its log names the rest.`] : []));
  find("quarantine_list").replaceChildren(photos.length === 0
    ? empty("No job has met a photo that it could not read.")
    : table(kHeads, photos.map((p) => [p.store, el("span", {class: "long"}, p.path || p.id), p.why, link(p.job)])));
}
