import {find_one, get, query} from "./api.js";
import {badge, count, el, find, percent} from "./dom.js";
import {thumbnail} from "./photos.js";

const kPage = 60;
const kSources = {human: "a person", import: "an import", folder: "its folder"};
let asked = {}, next = null, shown = 0, asking = 0;

function tile(row) {
  const by = row.source === "model" ? `version ${row.version ?? "unknown"}` : kSources[row.source];
  return el("figure", {title: row.path}, thumbnail(row),
    el("figcaption", {},
      el("strong", {}, row.label), row.score === undefined ? "" : ` ${percent(row.score, 0)}`,
      el("span", {class: "muted"}, `by ${by}`),
      el("span", {class: "muted path"}, row.path)));
}

async function page() {
  const mine = ++asking;
  try {
    const found = await get(query("/labels", {...asked, limit: kPage, after: next ?? ""}));
    if (mine !== asking) return;
    next = found.next;
    shown += found.rows.length;
    find("results").append(...found.rows.map(tile));
    find("found").textContent = shown === 0 ? "No photo has such a label."
      : next ? `The first ${count(shown)} photos` : `${count(shown)} photo${shown === 1 ? "" : "s"}`;
  } catch (e) {
    next = null;
    if (mine === asking) find("found").textContent = e.status === 404 && !asked.label
      ? "There are no labels yet: a relabelling or an upload makes the first." : e.message;
  }
  find("more").hidden = next === null;
}

function search() {
  asked = Object.fromEntries(new FormData(find("search")));
  [next, shown] = [null, 0];
  find("results").replaceChildren();
  page();
}

export function set_up_search() {
  find("search").addEventListener("submit", (e) => {
    e.preventDefault();
    search();
  });
  find("more").addEventListener("click", page);
}

export async function show_labels() {
  if (shown === 0) search();
  const stats = await find_one("/labels/stats");
  const names = Object.entries(stats?.by_class ?? {});
  find("classes").replaceChildren(...names.map(([name, n]) => el("option", {value: name}, count(n))));
}
