// Which classifier and which library the pages are about, where the Tuner has several.
import {query} from "./api.js";
import {el, find} from "./dom.js";

const kDefault = "default";

// One of several names, chosen in the select that is called so, and kept for the session.
class Choice {
  constructor(name) {
    this.name = name;
    this.kept = `ndtrain ${name}`;
    this.changed = () => {};
  }

  value() {
    return sessionStorage.getItem(this.kept) ?? kDefault;
  }

  // In a question: what is not said is the default one.
  said() {
    return this.value() === kDefault ? undefined : this.value();
  }

  // The names of all; one that is gone is chosen no more.
  show(names) {
    const select = find(this.name), before = this.value();
    if (!names.includes(before)) sessionStorage.removeItem(this.kept);
    if (names.length > 0 && !names.includes(this.value())) sessionStorage.setItem(this.kept, names[0]);
    find(`${this.name}_choice`).hidden = names.length < 2;
    const here = [...select.options].map((o) => o.value);
    if (here.join("\n") !== names.join("\n")) {
      select.replaceChildren(...names.map((name) => el("option", {value: name}, name)));
    }
    select.value = this.value();
    if (this.value() !== before) this.changed();
  }

  set_up(changed) {
    this.changed = changed;
    find(this.name).addEventListener("change", () => {
      sessionStorage.setItem(this.kept, find(this.name).value);
      changed();
    });
  }
}

const tasks = new Choice("task"), collections = new Choice("collection");

export const task = () => tasks.value();
export const collection = () => collections.value();

// Both, to see whether another is chosen by now.
export const chosen = () => `${collection()}\n${task()}`;

// A question about them.
export const of_task = (path, values = {}) =>
  query(path, {...values, task: tasks.said(), collection: collections.said()});

export const of_collection = (path) => query(path, {collection: collections.said()});

export const show_tasks = (names) => tasks.show(names);
export const show_collections = (names) => collections.show(names);

export function set_up_task(changed) {
  tasks.set_up(changed);
  collections.set_up(changed);
}
