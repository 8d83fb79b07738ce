// What another version in force would change is said before it is.
import {find_one, get, post} from "./api.js";
import {ask_first} from "./confirm.js";
import {bytes, count, el, percent} from "./dom.js";
import {of_task} from "./task.js";

const kChanges = 8;  // of labels that are named, the most frequent

const top1 = (metrics) => (metrics.top1 == null ? "unknown" : percent(metrics.top1));

function falls(metrics, from) {
  const all = metrics.compared_with === from ? metrics.class_falls ?? [] : [];
  return all.map((f) => `${f.class}: ${percent(f.before)} → ${percent(f.after)} of ${count(f.photos)} photos` +
    (f.beyond_chance ? ", more than chance explains" : ""));
}

const delivery = (f) => f.same ? `${f.file}: the same file`
  : `${f.file}: ${bytes(f.to_bytes)}, ` + (f.no_delta ? "sent whole" : `${bytes(f.delta_bytes)} as a delta`);

function list(name, lines) {
  return lines.length === 0 ? [] : [el("h3", {}, name), el("ul", {class: "changes"}, lines.map((l) => el("li", {}, l)))];
}

// From the version in force, 0 for none, to another.
async function changes(from, to) {
  if (!from) return [el("p", {}, "Nothing is in force yet: it would be the first.")];
  const [diff, labels] = await Promise.all([
    get(`/versions/${from}/diff/${to}`), find_one(of_task("/labels/diff", {from, to}))]);
  const both = labels ? labels.same + labels.changed : 0;
  return [
    el("p", {}, `Instead of version ${from}. Top-1 when trained: ${top1(diff.metrics_from)} → ${top1(diff.metrics_to)}` +
      (diff.same_photos ? ", on the same photos." : ", on other photos.")),
    ...list("Classes that it adds", diff.classes_added), ...list("Classes that it no longer has", diff.classes_removed),
    ...list("Classes that it knows less well", falls(diff.metrics_to, from)),
    ...(both > 0 ? [el("h3", {}, `Labels: ${count(labels.changed)} of ${count(both)} differ`), el("ul", {class: "changes"},
      labels.changes.slice(0, kChanges).map((c) => el("li", {}, `${c.from} → ${c.to}: ${count(c.photos)}`)))] : []),
    ...list("What stores fetch", diff.files.map(delivery))];
}

// `done` is called when it is.
export const ask_to_promote = (version, in_force, done) => ask_first({
  title: `Put version ${version} in force?`, action: `Put version ${version} in force`,
  about: changes(in_force, version),
  does: async () => {
    await post(`/versions/${version}/production`);
    done();
  },
});

export async function ask_to_roll_back(done) {
  const {from, to} = await get(of_task("/versions/rollback"));
  await ask_first({
    title: `Go back to version ${to}?`, action: `Roll back to version ${to}`, about: changes(from, to),
    does: async () => {
      await post(of_task("/versions/rollback"));
      done();
    },
  });
}
