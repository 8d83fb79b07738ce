import {find_one, follow} from "./api.js";
import {count, el, find} from "./dom.js";
import {show_jobs} from "./jobs.js";
import {set_up_review, show_review} from "./review.js";
import {set_up_search, show_labels} from "./search.js";
import {photos_of_stores, show_production, show_stores, stores_here, stores_known} from "./stores.js";
import {show_versions} from "./versions.js";

const kPages = {overview: show_overview, versions: show_versions, labels: show_labels, review: show_review};
const page = () => (location.hash.slice(1) in kPages ? location.hash.slice(1) : "overview");

let labels = null, production = 0, done = null;  // ids of jobs

function draw_figures() {
  const figure = (name, value, note) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", {class: "muted"}, note));
  find("figures").replaceChildren(
    figure("Stores here", count(stores_here()), `of ${count(stores_known())}`),
    figure("Photos", count(photos_of_stores()), "on all stores"),
    figure("Version in force", production ? String(production) : "–", production ? "production" : "none yet"),
    figure("Labels", count(labels?.labelled ?? 0),
      labels ? `${count(labels.stale)} stale` : "none yet"));
}

async function show_overview() {
  labels = await find_one("/labels/stats");
  draw_figures();
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
    await kPages[page()]();
  } catch (e) {
    say(e.message, "bad");
  }
}

function say(text, kind) {
  find("live").textContent = text;
  find("live").className = `live ${kind}`;
}

set_up_search();
set_up_review();
addEventListener("hashchange", show);
draw_figures();
show();
follow({
  stores: (stores) => {
    show_stores(stores);
    draw_figures();
  },
  jobs: (jobs) => {
    show_jobs(jobs);
    const now = jobs.filter((j) => j.state === "done").map((j) => j.job).join();
    if (done !== null && now !== done) refresh();
    done = now;
  },
  versions: (aliases) => {
    production = aliases.production ?? 0;
    show_production(production);
    draw_figures();
    if (page() === "versions") show();
  },
}, say);
