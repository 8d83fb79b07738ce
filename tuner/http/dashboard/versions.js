import {find_one, get, query} from "./api.js";
import {show_classes} from "./classes.js";
import {agreement, badge, bytes, count, el, empty, fact, find, percent, say, when} from "./dom.js";
import {notes_form} from "./notes.js";
import {ask_to_promote, ask_to_roll_back} from "./promotion.js";
import {of_task, task} from "./task.js";

const kShown = 8, kChanges = 6;
let more = kShown;

function changes(diff, before) {
  if (!diff) return el("p", {class: "muted"}, "It has labelled nothing that another version has.");
  const both = diff.same + diff.changed;
  if (both === 0) return el("p", {class: "muted"}, `No photo has labels of both it and version ${before}.`);
  const list = diff.changes.slice(0, kChanges).map((c) =>
    el("li", {}, el("span", {class: "number"}, count(c.photos)), " ", el("span", {}, c.from), " → ",
      el("span", {}, c.to)));
  const rest = diff.changes.slice(kChanges).reduce((n, c) => n + c.photos, 0);
  return el("div", {},
    el("p", {}, el("strong", {}, count(diff.changed)), ` of ${count(both)} labels changed against version `,
      `${before} (${percent(diff.changed / both)})`,
      diff.only_to > 0 ? `; ${count(diff.only_to)} photos have a label of this one only` : ""),
    el("ul", {class: "changes"}, list,
      rest > 0 ? el("li", {class: "muted"}, `${count(rest)} other changes`) : null));
}

async function describe(version, before) {
  const path = (name, values) => of_task(`/labels/${name}`, values);
  const [accuracy, diff] = await Promise.all([
    find_one(path("accuracy", {version: version.version})),
    before ? find_one(path("diff", {from: before, to: version.version})) : null]);
  const field = !accuracy ? el("p", {class: "muted"}, "It has labelled nothing yet.") : el("div", {},
    el("h4", {}, "Drawn at random since it was made: how good it is on the whole collection"), agreement(accuracy.at_random),
    el("h4", {}, "All that people and imports have labelled; it may be trained on them"), agreement(accuracy.all));
  return [el("div", {}, el("h3", {}, "Accuracy in the field"), field),
    before ? el("div", {}, el("h3", {}, "Label changes"), changes(diff, before)) : null];
}

function promote_button(version, in_force) {
  if (version.version === in_force) return null;
  return el("button", {click: () => ask_to_promote(version.version, in_force, () => {
    say("versions_said", `Version ${version.version} is in force; stores that are away get it when they are back.`);
    show_versions();
  })}, "Put in force …");
}

const said_of = ({tags, note}) => [
  ...(tags.length > 0 ? [fact("Tags", tags.join(", "))] : []), ...(note ? [fact("Note", note)] : [])];

function card(version, before, in_force) {
  const metrics = version.metrics || {};
  const aliases = version.aliases.map((a) => [" ", badge(a, a === "production" ? "good" : "busy")]);
  const details = el("div", {class: "two"}, el("p", {class: "muted"}, "looking …"));
  describe(version, before)
    .then((parts) => details.replaceChildren(...parts.filter((p) => p)))
    .catch((e) => details.replaceChildren(el("p", {class: "muted"}, e.message)));
  return el("article", {class: "version"},
    el("div", {class: "heading"}, el("h2", {}, `Version ${version.version}`, aliases.flat(), version.name ? ` ${version.name}` : ""),
      promote_button(version, in_force)),
    el("dl", {class: "facts"},
      fact("Made", when(version.created), " by ", el("a", {href: `#job/${version.job}`}, `job ${version.job}`)),
      fact("Classes", count(version.classes)),
      fact("When trained", metrics.top1 == null ? "unknown"
        : `${percent(metrics.top1)} of ${count(metrics.val_photos ?? 0)} photos`),
      fact("Size", bytes(version.bytes)),
      fact("In force at", version.stores.length > 0 ? version.stores.join(", ") : "no store"),
      ...said_of(version)),
    notes_form(`/versions/${version.version}`, version, () => show_versions()),
    details);
}

export function set_up_versions() {
  find("roll_back").addEventListener("click", () => ask_to_roll_back(() => {
    say("versions_said", "What was in force before is again.");
    show_versions();
  }).catch((e) => say("versions_said", e.message)));
}

export async function show_versions() {
  const all = (await get(query("/versions", {task: task()}))).reverse();
  const there = new Set(all.map((v) => v.version));
  const in_force = all.find((v) => v.aliases.includes("production"));
  // What was in force before it; else the one before it.
  const before = (v, i) => (there.has(v.parent) ? v.parent : all[i + 1]?.version ?? 0);
  const cards = all.slice(0, more).map((v, i) => card(v, before(v, i), in_force?.version ?? 0));
  const older = all.length > more ? el("button", {click: () => {
    more += kShown;
    show_versions();
  }}, "Show older versions") : null;
  find("roll_back").hidden = !in_force;
  find("version_list").replaceChildren(...(all.length === 0
    ? [empty("No version yet: a fine-tuning makes the first one.")] : [...cards, older].filter((n) => n)));
  await show_classes(in_force);
}
