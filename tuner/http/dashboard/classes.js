// How well a version knows each class, and what it takes for what.
import {find_one} from "./api.js";
import {count, el, empty, find, percent, table} from "./dom.js";
import {of_task} from "./task.js";

const kMatrix = 20, kPairs = 12;  // classes of a matrix; with more, so many pairs are listed
const kHeads = [
  {name: "Class"}, {name: "Photos", number: true}, {name: "Recall", number: true}, {name: "Precision", number: true}];

// Counts of a square, row by row, the row being the truth; as [{truth, said, photos}].
export const pairs_of = (classes, counts) => counts.map((photos, i) => ({
  truth: classes[Math.floor(i / classes.length)], said: classes[i % classes.length], photos})).filter((p) => p.photos > 0);

// [{name, photos, recall, precision}], by name; NaN where there is no photo to say it of.
export function classes_of(pairs) {
  const names = [...new Set(pairs.flatMap((p) => [p.truth, p.said]))].sort();
  const sum = (of) => pairs.filter(of).reduce((n, p) => n + p.photos, 0);
  return names.map((name) => {
    const right = sum((p) => p.truth === name && p.said === name);
    return {name, photos: sum((p) => p.truth === name),
      recall: right / sum((p) => p.truth === name), precision: right / sum((p) => p.said === name)};
  });
}

const share = (x) => (Number.isNaN(x) ? "–" : percent(x));

function matrix(names, pairs) {
  const photos = new Map(pairs.map((p) => [`${p.truth}\n${p.said}`, p.photos]));
  const cell = (truth, said) => {
    const n = photos.get(`${truth}\n${said}`) ?? 0;
    return el("td", {class: n === 0 ? "number muted" : truth === said ? "number right" : "number wrong"}, count(n));
  };
  return el("table", {class: "matrix"},
    el("thead", {}, el("tr", {}, el("td", {}), names.map((n) => el("th", {scope: "col", title: n}, n)))),
    el("tbody", {}, names.map((truth) => el("tr", {}, el("th", {scope: "row", title: truth}, truth), names.map((said) => cell(truth, said))))));
}

function confused(pairs) {
  const wrong = pairs.filter((p) => p.truth !== p.said).sort((a, b) => b.photos - a.photos).slice(0, kPairs);
  return el("ul", {class: "changes"}, wrong.map((p) =>
    el("li", {}, el("span", {class: "number"}, count(p.photos)), ` ${p.truth}, taken for ${p.said}`)));
}

function part(title, pairs, otherwise) {
  if (pairs.length === 0) return el("div", {}, el("h3", {}, title), empty(otherwise));
  const classes = classes_of(pairs), few = classes.length <= kMatrix;
  return el("div", {}, el("h3", {}, title),
    el("div", {class: "scroll"}, table(kHeads, classes.map((c) => [c.name, count(c.photos), share(c.recall), share(c.precision)]))),
    el("h4", {}, few ? "Confusion: what photos show by row, what the version says by column" : "Most often confused"),
    few ? el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": `Confusion, ${title}`},
      matrix(classes.map((c) => c.name), pairs)) : confused(pairs));
}

// `version`: as GET /versions has it, or undefined.
export async function show_classes(version) {
  find("classes_part").hidden = !version;
  if (!version) return;
  const [run, field] = await Promise.all([
    version.job ? find_one(`/jobs/${version.job}/run`) : null,
    find_one(of_task("/labels/confusion", {version: version.version}))]);
  find("classes_title").textContent = `Version ${version.version}, in force, class by class`;
  find("classes_of_version").replaceChildren(
    part("When trained, on photos for validation", run ? pairs_of(run.classes, run.confusion) : [],
      "Its training kept no photos for validation here."),
    part("In the field, where people and imports said what it is; it may be trained on them", field?.photos ?? [],
      "Nobody has said of a photo that it labelled what it shows."));
}
