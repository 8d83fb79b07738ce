// What there are photos of, and since when.
import {find_one} from "./api.js";
import {count, el, empty, find, percent, share_bar, svg} from "./dom.js";
import {of_task} from "./task.js";

const kClasses = 12, kDays = 60, kDay = 86400, kWidth = 600, kHeight = 120;

function per_class(stats) {
  const all = Object.entries(stats.by_class).sort(([, a], [, b]) => b - a), shown = all.slice(0, kClasses);
  const rest = all.slice(kClasses).reduce((n, [, photos]) => n + photos, 0);
  const rows = rest > 0 ? [...shown, [`${count(all.length - kClasses)} other classes`, rest]] : shown;
  const most = Math.max(...rows.map(([, n]) => n));
  return el("div", {class: "bars"}, rows.map(([name, n]) =>
    share_bar(name, n / most, `${count(n)} photos, ${percent(n / stats.labelled)}`)));
}

// Photos of each of the last days up to the newest: [[day, photos]], days without any too.
export function by_day(rows) {
  const days = new Map();
  for (const r of rows) days.set(r.day, (days.get(r.day) ?? 0) + r.photos);
  const last = Math.max(...days.keys()), first = Math.max(Math.min(...days.keys()), last - (kDays - 1) * kDay);
  return Array.from({length: (last - first) / kDay + 1}, (_, i) => [first + i * kDay, days.get(first + i * kDay) ?? 0]);
}

const date = (day) => new Date(day * 1000).toLocaleDateString(undefined, {timeZone: "UTC"});

function over_time(rows) {
  const days = by_day(rows), most = Math.max(...days.map(([, n]) => n)), step = kWidth / Math.max(days.length, 7);
  const sum = days.reduce((n, [, photos]) => n + photos, 0);
  return el("figure", {class: "chart"},
    svg("svg", {viewBox: `0 0 ${kWidth} ${kHeight}`, role: "img",
      "aria-label": `${count(sum)} new photos from ${date(days[0][0])} to ${date(days.at(-1)[0])}`},
    svg("line", {x1: 0, x2: kWidth, y1: kHeight, y2: kHeight, class: "tick"}),
    days.map(([day, n], i) => svg("rect", {x: i * step + 1, width: Math.max(1, step - 2),
      y: kHeight - n / most * kHeight, height: n / most * kHeight, class: "fill"},
    svg("title", {}, `${date(day)}: ${count(n)} photos`)))),
    el("figcaption", {class: "ends"}, el("span", {}, date(days[0][0])),
      el("span", {class: "muted"}, `at most ${count(most)} a day`), el("span", {}, days.length > 1 ? date(days.at(-1)[0]) : "")));
}

export async function show_collection(stats) {
  const rows = stats ? await find_one(of_task("/labels/new-photos")) : null;
  find("per_class").replaceChildren(stats?.labelled > 0 ? per_class(stats) : empty("No photo has a label yet."));
  find("over_time").replaceChildren(rows?.length > 0 ? over_time(rows) : empty("No photo has a label yet."));
}
