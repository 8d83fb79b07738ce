// One photo, large: what it was ever called and by whom. It can be corrected, put in the trash and
// taken out of it.
import {find_one, get, post, put} from "./api.js";
import {ask_first} from "./confirm.js";
import {badge, el, fact, find, percent, say, table, when} from "./dom.js";
import {whole_photo} from "./photos.js";
import {clear_similar, show_similar} from "./similar.js";
import {of_task} from "./task.js";

const kHeads = [{name: "When"}, {name: "Label"}, {name: "Score", number: true}, {name: "Said by"}, {name: "At"}];
const kSources = {human: "a person", import: "an import", folder: "its folder"};
let photo = null;  // the row that is shown

export const said_by = (row) => kSources[row.source] ?? `version ${row.version ?? "unknown"}`;

const cells = (row) => [when(row.time),
  [row.label, row.withdrawn ? [" ", badge("withdrawn", "warn")] : []].flat(2),
  row.score === undefined ? "" : percent(row.score), said_by(row), row.store ?? ""];

function draw_trash(entry) {
  find("photo_trash").hidden = entry !== null;
  find("photo_restore").hidden = entry === null;
  find("photo_correct").hidden = entry !== null;
  if (entry) say("photo_said", `It is in the trash until ${new Date(entry.until * 1000).toLocaleString()}, and nothing shows it.`);
}

async function draw_history() {
  const rows = await get(of_task(`/labels/${photo.photo}`));
  find("photo_history").replaceChildren(table(kHeads, rows.map(cells)));
}

async function correct(e) {
  e.preventDefault();
  const label = find("photo_class").value.trim();
  try {
    await put(of_task(`/labels/${photo.photo}`), {label});
    find("photo_class").value = "";
    await show_photo(String(photo.photo));
    say("photo_said", `Kept: it shows ${label}.`);
  } catch (e) {
    say("photo_said", `Not kept: ${e.message}`);
  }
}

async function put_in_trash() {
  const about = await get(`/trash/${photo.id}`);
  const away = about.away.length > 0 ? ` ${about.away.join(", ")} will hear of it when back.` : "";
  ask_first({
    title: "Put the photo in the trash?", action: "Put it in the trash",
    about: [`Nothing shows ${about.paths.join(", ")} any more. For 30 days it can be restored; then it is deleted everywhere.${away}`],
    does: async () => draw_trash(await post(`/trash/${photo.id}`)),
  });
}

async function restore() {
  try {
    await post(`/restore/${photo.id}`);
    draw_trash(null);  // all that is shown of it still holds, though lists have it again only in a moment
    say("photo_said", "It is where it was, with all that was said of it.");
  } catch (e) {
    say("photo_said", e.message);
  }
}

export function set_up_photo() {
  find("photo_correct").addEventListener("submit", correct);
  find("photo_trash").addEventListener("click", () => put_in_trash().catch((e) => say("photo_said", e.message)));
  find("photo_restore").addEventListener("click", restore);
  find("photo_like").addEventListener("click", () => show_similar(photo));
}

export async function show_photo(number) {
  if (!/^[0-9]{1,18}$/.test(number)) throw new Error(`There is no photo ${number}.`);
  const [found, stats] = await Promise.all([
    get(of_task("/labels", {photo: number})), find_one(of_task("/labels/stats"))]);
  say("photo_said", "");
  clear_similar();
  const first = found.rows[0];
  const trash = first ? await get(`/trash/${first.id}`) : null;  // the list hears of it in a moment
  photo = trash && !trash.deleted ? first : null;
  find("photo_parts").hidden = photo === null;
  find("photo_missing").hidden = photo !== null;
  if (!photo) return;
  find("photo_large").replaceChildren(whole_photo(photo));
  find("photo_title").textContent = photo.label;
  find("photo_facts").replaceChildren(
    ...found.rows.map((r) => fact("Path", r.path)), fact("Said by", said_by(photo)),
    ...(photo.score === undefined ? [] : [fact("Score", percent(photo.score))]),
    fact("SHA-256", el("code", {}, photo.id)));
  find("photo_classes").replaceChildren(...(stats?.classes ?? []).map((name) => el("option", {value: name})));
  draw_trash(trash.until === null ? null : trash);
  await draw_history();
}
