// Photos that are like the one that is shown, by the features of the version in force.
import {get} from "./api.js";
import {count, el, find, percent, say} from "./dom.js";
import {thumbnail} from "./photos.js";
import {of_task} from "./task.js";

const kMost = 24;
let asking = 0;

function tile(row) {
  const name = row.label ?? "without a label";
  const picture = row.photo === null ? thumbnail(row)
    : el("a", {href: `#photo/${row.photo}`, "aria-label": `${name}, ${row.path}`}, thumbnail(row));
  return el("figure", {title: row.path}, picture,
    el("figcaption", {}, el("strong", {}, name), el("span", {class: "muted"}, `${percent(row.similarity, 0)} alike`),
      el("span", {class: "muted path"}, row.path)));
}

function said_of(answer) {
  const without = Object.entries(answer.not_searched).map(([store, why]) => `Without those of ${store}: ${why}.`);
  return [`Of ${count(answer.searched)} photos that version ${answer.version} has features of.`, ...without].join(" ");
}

// Of another photo, or of none.
export function clear_similar() {
  ++asking;
  find("photo_similar").replaceChildren();
  say("photo_similar_said", "");
}

export async function show_similar(photo) {
  clear_similar();
  const mine = asking;
  say("photo_similar_said", "Looking …");
  try {
    const answer = await get(of_task(`/photos/${photo.id}/like`, {k: kMost + 1}));
    if (mine !== asking) return;
    find("photo_similar").replaceChildren(
      ...answer.photos.filter((row) => row.id !== photo.id).slice(0, kMost).map(tile));
    say("photo_similar_said", said_of(answer));
  } catch (e) {
    if (mine === asking) say("photo_similar_said", e.message);
  }
}
