// What people call a job or a version and say of it, and a form that changes it.
import {post} from "./api.js";
import {el} from "./dom.js";

export const tags_of = (text) => [...new Set(text.split(/[\s,]+/).filter((t) => t !== ""))];

// The body of POST …/notes that makes `before` {name, note, tags} what the form says.
export function change_of(before, {name, note, tags}) {
  return {name, note, add: tags.filter((t) => !before.tags.includes(t)), remove: before.tags.filter((t) => !tags.includes(t))};
}

// `path`: of the job or version; `changed` is called with what the Tuner says it is then.
export function notes_form(path, before, changed) {
  const name = el("input", {name: "name", maxlength: 100, value: before.name, autocomplete: "off"});
  const tags = el("input", {name: "tags", value: before.tags.join(" "), autocomplete: "off"});
  const note = el("textarea", {name: "note", rows: 3, maxlength: 4000}, before.note);
  const said = el("p", {class: "lead", role: "status"});
  const save = async (e) => {
    e.preventDefault();
    try {
      const wanted = {name: name.value, note: note.value, tags: tags_of(tags.value)};
      changed(await post(`${path}/notes`, change_of(before, wanted)));
    } catch (e) {
      said.textContent = `It is as before: ${e.message}`;
    }
  };
  return el("details", {class: "notes"}, el("summary", {}, "Name, tags and note"),
    el("form", {class: "fields", submit: save}, el("label", {}, "Name ", name),
      el("label", {}, "Tags, with spaces between them ", tags), el("label", {}, "Note ", note),
      el("p", {}, el("button", {}, "Save")), said));
}
