import {badge, bytes, count, el, empty, find, table, when} from "./dom.js";
import {task} from "./task.js";

const kHeads = [
  {name: "Store"}, {name: "Photos", number: true}, {name: "Version in force"},
  {name: "Free for uploads", number: true}, {name: "Uploads"}, {name: "Last seen"}];

let stores = [], production = 0;

function state(store) {
  if (!store.here) return badge("away", "warn");
  if (store.wrong_features) return badge("wrong features", "warn");
  return store.drained ? badge("drained", "warn") : badge("here", "good");
}

function version(store) {
  const here = store.in_force[task()] ?? 0;  // of the task that the pages are about
  if (!here) return el("span", {class: "muted"}, "none yet");
  const behind = production && here !== production;
  return [String(here), behind ? [" ", badge("behind", "warn")] : []].flat();
}

function draw() {
  find("stores").replaceChildren(stores.length === 0
    ? empty("No PipeStore has come yet. Start one with ",
        el("code", {}, "ndtrain pipestore serve"), " where photos are.")
    : table(kHeads, stores.map((s) => [
      [el("strong", {}, s.store), " ", state(s)], count(s.photos), version(s),
      s.http ? bytes(s.free) : "", s.http ? el("code", {}, s.http) : el("span", {class: "muted"}, "none"),
      s.here ? "now" : when(s.last_seen)])));
}

export function show_stores(now) {
  stores = now;
  draw();
}

export function show_production(version_number) {
  production = version_number;
  draw();
}

export const stores_here = () => stores.filter((s) => s.here).length;
export const photos_of_stores = () => stores.reduce((n, s) => n + s.photos, 0);
export const stores_known = () => stores.length;
