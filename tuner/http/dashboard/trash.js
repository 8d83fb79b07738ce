// Photos in the trash, until they are restored or deleted.
import {get, post, remove} from "./api.js";
import {ask_first} from "./confirm.js";
import {el, empty, find, say, table, when} from "./dom.js";

const kHeads = [{name: "Photo"}, {name: ""}, {name: "By"}, {name: "Since"}, {name: "Deleted"}];

const until = (unix) => {
  const date = new Date(unix * 1000);
  return el("time", {datetime: date.toISOString()}, date.toLocaleString());
};
const name_of = (photo) => photo.paths[0] ?? photo.id.slice(0, 12);

async function restore(photo) {
  try {
    await post(`/restore/${photo.id}`);
    await show_trash();
    say("trash_said", `${name_of(photo)} is where it was.`);
  } catch (e) {
    say("trash_said", e.message);
  }
}

const ask_to_delete = (photo) => ask_first({
  title: "Delete the photo for good?", action: "Delete it everywhere",
  about: [`${photo.paths.join(", ") || photo.id} goes from all stores, with all that was made of it and said of it. Nothing brings it back.`],
  does: async () => {
    await remove(`/photos/${photo.id}`);
    await show_trash();
    say("trash_said", `${name_of(photo)} is deleted.`);
  },
});

const cells = (photo) => [
  photo.paths.length > 0 ? photo.paths.map((p) => el("div", {class: "long"}, p)) : el("code", {}, photo.id),
  el("div", {class: "controls"},
    el("button", {class: "small", click: () => restore(photo)}, "Restore"),
    el("button", {class: "small", click: () => ask_to_delete(photo)}, "Delete now")),
  photo.who, when(photo.since), until(photo.until)];

export async function show_trash() {
  const photos = await get("/trash");
  say("trash_said", "");
  find("trash_list").replaceChildren(photos.length === 0
    ? empty("No photo is in the trash.") : table(kHeads, photos.map(cells)));
}
