// What a training measured of each epoch, as curves.
import {el, svg} from "./dom.js";
import {step_of} from "./trace.js";

const kWidth = 420, kHeight = 200, kLeft = 46, kRight = 12, kTop = 10, kBottom = 26;

const text_of = (value, step) => value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));

// Between the epochs that have the value; an epoch without a validation has none.
function path_of(rows, key, x, y) {
  return rows.filter((r) => Number.isFinite(r[key]))
    .map((r, i) => `${i ? "L" : "M"}${x(r.epoch).toFixed(1)} ${y(r[key]).toFixed(1)}`).join("");
}

// One chart, or null without any value; rows are by epoch, lines: [{key, name, kind}], `kind` being a class of the style sheet.
export function chart(title, rows, lines) {
  const values = rows.flatMap((r) => lines.map((l) => r[l.key])).filter(Number.isFinite);
  if (values.length === 0) return null;
  const first = rows[0].epoch, last = Math.max(rows.at(-1).epoch, first + 1);
  const low = Math.min(...values), high = Math.max(...values), room = (high - low || 1) * 0.05;
  const x = (epoch) => kLeft + (epoch - first) / (last - first) * (kWidth - kLeft - kRight);
  const y = (v) => kTop + (high + room - v) / (high - low + 2 * room || 1) * (kHeight - kTop - kBottom);
  const marks = [], step = step_of(high - low + 2 * room, 4), epochs = Math.max(1, step_of(last - first, 6));
  for (let v = Math.ceil((low - room) / step) * step; v <= high + room; v += step) {
    marks.push(svg("line", {x1: kLeft, x2: kWidth - kRight, y1: y(v), y2: y(v), class: "tick"}),
      svg("text", {x: kLeft - 6, y: y(v) + 4, class: "of_y"}, text_of(v, step)));
  }
  for (let e = Math.ceil(first / epochs) * epochs; e <= rows.at(-1).epoch; e += epochs) {
    marks.push(svg("text", {x: x(e), y: kHeight - 8, class: "time"}, String(e)));
  }
  const drawn = lines.flatMap((l) => {
    const seen = rows.filter((r) => Number.isFinite(r[l.key]));
    return [svg("path", {d: path_of(rows, l.key, x, y), class: `curve ${l.kind}`}),
      seen.length === 1 ? svg("circle", {cx: x(seen[0].epoch), cy: y(seen[0][l.key]), r: 3, class: `dot ${l.kind}`}) : []].flat();
  });
  return el("figure", {class: "chart"},
    el("figcaption", {}, el("strong", {}, title), lines.map((l) => el("span", {class: `key ${l.kind}`}, l.name))),
    svg("svg", {viewBox: `0 0 ${kWidth} ${kHeight}`, role: "img", "aria-label": `${title} by epoch`}, marks, drawn));
}

// [elements] of the rows of metrics.jsonl.
export const curves = (rows) => [
  chart("Loss", rows, [{key: "val_loss", name: "validation", kind: "val"}, {key: "train_loss", name: "training", kind: "train"}]),
  chart("Top-1", rows, [{key: "val_top1", name: "validation", kind: "val"}, {key: "train_top1", name: "training", kind: "train"}]),
].filter((c) => c);
