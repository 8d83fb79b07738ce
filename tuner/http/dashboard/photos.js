// Pictures of the stores, through the Tuner: an address in an <img> could carry no token.
import {request} from "./api.js";
import {el} from "./dom.js";
import {of_collection} from "./task.js";

const kAtOnce = 6, kKept = 400;
const waiting = [];
const kept = new Map();  // path -> address of a blob, in the order of use
let underway = 0;

function keep(path, address) {
  kept.set(path, address);
  if (kept.size <= kKept) return;
  const [oldest, gone] = kept.entries().next().value;
  kept.delete(oldest);
  URL.revokeObjectURL(gone);
}

async function load(path) {
  if (kept.has(path)) {
    const address = kept.get(path);
    kept.delete(path);
    keep(path, address);
    return address;
  }
  if (underway >= kAtOnce) await new Promise((resolve) => waiting.push(resolve));
  ++underway;
  try {
    const response = await request(path);
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error || "no picture");
    const address = URL.createObjectURL(await response.blob());
    keep(path, address);
    return address;
  } finally {
    --underway;
    waiting.shift()?.();
  }
}

const path_of = (row, kind) =>
  of_collection(`/stores/${encodeURIComponent(row.held_by)}/photos/${row.id}${kind}`);

async function show(box, path, name) {
  try {
    const image = el("img", {alt: name, src: await load(path)});
    await image.decode();
    box.replaceChildren(image);
  } catch (e) {
    if (box.querySelector("img")) return;  // better the small one than none
    box.replaceChildren(el("span", {class: "muted"}, "no preview"));
    box.title = e.message;
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    target.dispatchEvent(new Event("seen"));
  }
}, {rootMargin: "300px"});

// A box of fixed size, filled once it comes into sight.
export function thumbnail(row) {
  const box = el("div", {class: "photo"});
  box.addEventListener("seen", () => show(box, path_of(row, "/thumbnail"), row.label), {once: true});
  seen.observe(box);
  return box;
}

// The thumbnail first, then the photo itself.
export function whole_photo(row) {
  const box = el("div", {class: "photo"});
  show(box, path_of(row, "/thumbnail"), row.label).then(() => show(box, path_of(row, ""), row.label));
  return box;
}

export const load_ahead = (row) => load(path_of(row, "/thumbnail")).catch(() => {});
