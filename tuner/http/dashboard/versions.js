import {find_one, get, query} from "./api.js";
import {agreement, badge, bytes, count, el, empty, find, percent, when} from "./dom.js";

const kShown = 8, kChanges = 6;
let more = kShown;

const figure = (name, ...value) => el("div", {}, el("dt", {}, name), el("dd", {}, ...value));

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
  const path = (name, values) => query(`/labels/${name}`, values);
  const [accuracy, diff] = await Promise.all([
    find_one(path("accuracy", {version: version.version})),
    before ? find_one(path("diff", {from: before, to: version.version})) : null]);
  const field = !accuracy ? el("p", {class: "muted"}, "It has labelled nothing yet.") : el("div", {},
    el("h4", {}, "Drawn at random"), agreement(accuracy.at_random),
    el("h4", {}, "All that people looked at"), agreement(accuracy.all));
  return [el("div", {}, el("h3", {}, "Accuracy in the field"), field),
    before ? el("div", {}, el("h3", {}, "Label changes"), changes(diff, before)) : null];
}

function card(version, before) {
  const metrics = version.metrics || {};
  const aliases = version.aliases.map((a) => [" ", badge(a, a === "production" ? "good" : "busy")]);
  const details = el("div", {class: "two"}, el("p", {class: "muted"}, "looking …"));
  describe(version, before)
    .then((parts) => details.replaceChildren(...parts.filter((p) => p)))
    .catch((e) => details.replaceChildren(el("p", {class: "muted"}, e.message)));
  return el("article", {class: "version"},
    el("h2", {}, `Version ${version.version}`, aliases.flat()),
    el("dl", {class: "facts"},
      figure("Made", when(version.created), ` by job ${version.job}`),
      figure("Classes", count(version.classes)),
      figure("When trained", metrics.top1 == null ? "unknown"
        : `${percent(metrics.top1)} of ${count(metrics.val_photos ?? 0)} photos`),
      figure("Size", bytes(version.bytes)),
      figure("In force at", version.stores.length > 0 ? version.stores.join(", ") : "no store")),
    details);
}

export async function show_versions() {
  const all = (await get("/versions")).reverse();
  const there = new Set(all.map((v) => v.version));
  // What was in force before it; else the one before it.
  const before = (v, i) => (there.has(v.parent) ? v.parent : all[i + 1]?.version ?? 0);
  const cards = all.slice(0, more).map((v, i) => card(v, before(v, i)));
  const older = all.length > more ? el("button", {click: () => {
    more += kShown;
    show_versions();
  }}, "Show older versions") : null;
  find("version_list").replaceChildren(...(all.length === 0
    ? [empty("No version yet: a fine-tuning makes the first one.")] : [...cards, older].filter((n) => n)));
}
