import {set_up_add_photos} from "./add_photos.js";
import {find_one, follow} from "./api.js";
import {show_collection} from "./collection.js";
import {show_compare} from "./compare.js";
import {set_up_confirm} from "./confirm.js";
import {count, el, find} from "./dom.js";
import {follow_job, set_up_job, show_job} from "./job.js";
import {show_jobs} from "./jobs.js";
import {set_up_photo, show_photo} from "./photo.js";
import {show_quarantine} from "./quarantine.js";
import {set_up_review, show_review} from "./review.js";
import {set_up_search, show_labels} from "./search.js";
import {set_up_session} from "./session.js";
import {photos_of_stores, show_production, show_stores, stores_here, stores_known} from "./stores.js";
import {set_up_submit, show_submit} from "./submit.js";
import {of_task, set_up_task, show_collections, show_tasks, task} from "./task.js";
import {show_trash} from "./trash.js";
import {set_up_versions, show_versions} from "./versions.js";

const kPages = {
  overview: show_overview, versions: show_versions, labels: show_labels, review: show_review, job: show_job,
  compare: show_compare, submit: show_submit, photo: show_photo, quarantine: show_quarantine, trash: show_trash};
// "#job/3" is the page `job` of 3.
const address = () => location.hash.slice(1).split("/");
const page = () => (Object.hasOwn(kPages, address()[0]) ? address()[0] : "overview");

let labels = null, aliases = {}, done = null;  // by task; ids of jobs
const production = () => aliases[task()]?.production ?? 0;

function draw_figures() {
  const figure = (name, value, note) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", {class: "muted"}, note));
  find("figures").replaceChildren(
    figure("Stores here", count(stores_here()), `of ${count(stores_known())}`),
    figure("Photos", count(photos_of_stores()), "on all stores"),
    figure("Version in force", production() ? String(production()) : "–", production() ? "production" : "none yet"),
    figure("Photos with a label", count(labels?.labelled ?? 0),
      labels ? `of ${count(labels.photos)}; ${count(labels.stale)} stale` : "none yet"),
    figure("Classes", count(Object.keys(labels?.by_class ?? {}).length), "that photos have"));
}

async function show_overview() {
  labels = await find_one(of_task("/labels/stats"));
  draw_figures();
  await show_collection(labels);
}

// A page that is looked at shows what a job that is done has changed.
function refresh() {
  if (page() === "overview" || page() === "versions") show();
}

async function show() {
  for (const name of Object.keys(kPages)) find(name).hidden = name !== page();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${page()}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    await kPages[page()](address()[1]);
  } catch (e) {
    say(e.message, "bad");
  }
}

function say(text, kind) {
  find("live").textContent = text;
  find("live").className = `live ${kind}`;
}

set_up_add_photos(refresh);
set_up_confirm();
set_up_job();
set_up_photo();
set_up_search();
set_up_review();
set_up_submit();
set_up_task(() => {
  show_production(production());
  show();
});
set_up_versions();
set_up_session().catch((e) => say(e.message, "bad"));
addEventListener("hashchange", () => {
  scrollTo(0, 0);
  show();
});
draw_figures();
show();
follow({
  stores: (stores) => {
    show_stores(stores);
    show_collections([...new Set(stores.map((s) => s.collection))].sort());
    draw_figures();
  },
  jobs: (jobs) => {
    show_jobs(jobs);
    follow_job(jobs);
    const now = jobs.filter((j) => j.state === "done").map((j) => j.job).join();
    if (done !== null && now !== done) refresh();
    done = now;
  },
  versions: (now) => {
    aliases = now;
    show_tasks(Object.keys(aliases));
    show_production(production());
    draw_figures();
    if (page() === "versions") show();
  },
}, say);
