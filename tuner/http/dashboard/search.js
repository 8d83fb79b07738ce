import {find_one, get} from "./api.js";
import {count, el, find, percent} from "./dom.js";
import {said_by} from "./photo.js";
import {thumbnail} from "./photos.js";
import {chosen, of_task} from "./task.js";

const kPage = 60;
let asked = {}, next = null, shown = 0, asking = 0, of = "";

function tile(row) {
  return el("figure", {title: row.path}, el("a", {href: `#photo/${row.photo}`, "aria-label": `${row.label}, ${row.path}`}, thumbnail(row)),
    el("figcaption", {},
      el("strong", {}, row.label), row.score === undefined ? "" : ` ${percent(row.score, 0)}`,
      el("span", {class: "muted"}, `by ${said_by(row)}`),
      el("span", {class: "muted path"}, row.path)));
}

async function page() {
  const mine = ++asking;
  try {
    const found = await get(of_task("/labels", {...asked, limit: kPage, after: next ?? ""}));
    if (mine !== asking) return;
    next = found.next;
    shown += found.rows.length;
    find("results").append(...found.rows.map(tile));
    find("found").textContent = shown === 0 ? "No photo is found."
      : next ? `The first ${count(shown)} photos` : `${count(shown)} photo${shown === 1 ? "" : "s"}`;
  } catch (e) {
    next = null;
    if (mine === asking) find("found").textContent = e.status === 404 && !asked.label
      ? "There are no labels yet: a relabelling or an upload makes the first." : e.message;
  }
  find("more").hidden = next === null;
}

// Days are of the reader's clock, the last one to its end.
const seconds = (day, time) => (day ? Math.floor(new Date(`${day}T${time}`) / 1000) : "");

function search() {
  asked = Object.fromEntries(new FormData(find("search")));
  asked.since = seconds(asked.since, "00:00:00");
  asked.until = seconds(asked.until, "23:59:59");
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
  if (shown === 0 || of !== chosen()) search();
  of = chosen();
  const [stats, stores] = await Promise.all([find_one(of_task("/labels/stats")), get("/stores")]);
  const names = Object.entries(stats?.by_class ?? {});
  find("classes").replaceChildren(...names.map(([name, n]) => el("option", {value: name}, count(n))));
  const select = find("search").elements.store, before = select.value;
  select.replaceChildren(el("option", {value: ""}, "any store"), ...stores.map((s) => el("option", {value: s.store}, s.store)));
  select.value = before;
}
