// A job's trace (Chrome's trace format) as a timeline.
import {file_link} from "./api.js";
import {el, empty, find, svg} from "./dom.js";

const kLane = 26, kGap = 8, kLeft = 130, kRight = 16, kAxis = 26;

const end_of = (spans) => Math.max(...spans.map((s) => s.to), 1e-3);

// [{who, lanes: [[span]]}]: what overlaps by more than can be seen goes into lanes of its own.
export function lanes_of(trace) {
  const names = new Map(), spans = new Map();
  for (const e of trace.traceEvents) {
    if (e.ph === "M" && e.name === "thread_name") names.set(e.tid, e.args.name);
    if (e.ph !== "X") continue;
    if (!spans.has(e.tid)) spans.set(e.tid, []);
    spans.get(e.tid).push({what: e.name, from: e.ts / 1e6, to: (e.ts + e.dur) / 1e6});
  }
  const slack = end_of([...spans.values()].flat()) / 400;
  return [...spans].sort(([a], [b]) => a - b).map(([tid, all]) => {
    const lanes = [];
    for (const span of all.sort((a, b) => a.from - b.from)) {
      const free = lanes.find((lane) => lane.at(-1).to <= span.from + slack);
      if (free) free.push(span);
      else lanes.push([span]);
    }
    return {who: names.get(tid) ?? String(tid), lanes};
  });
}

// A round step so that there are at most `most`.
export function step_of(length, most) {
  const least = Math.max(length / most, 1e-6), power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least * (1 - 1e-9));
}

const seconds = (s, step) => `${s.toFixed(Math.max(0, -Math.floor(Math.log10(step))))} s`;

function draw(groups, width) {
  const end = end_of(groups.flatMap((g) => g.lanes.flat()));
  const x = (t) => kLeft + (t / end) * (width - kLeft - kRight);
  const marks = [], boxes = [];
  let y = 4;
  groups.forEach((group, i) => {
    const height = group.lanes.length * kLane;
    boxes.push(svg("text", {x: 0, y: y + kLane / 2 + 4, class: "who"},
      svg("title", {}, group.who), group.who.length > 17 ? `${group.who.slice(0, 16)}…` : group.who));
    group.lanes.forEach((lane, l) => {
      lane.forEach((s, n) => {
        const wide = Math.max(2, x(s.to) - x(s.from)), needs = 7 * s.what.length + 12;
        const right = x(s.from) + wide, next = lane[n + 1] ? x(lane[n + 1].from) : width;
        // Within the box; else behind it, if nothing is there.
        const text = wide > needs ? x(s.from) + 7 : next - right > needs ? right + 6 : undefined;
        boxes.push(svg("g", {class: group.who === "tuner" ? "span tuner" : "span store"},
          svg("title", {}, `${group.who}: ${s.what}, ${s.from.toFixed(2)} s to ${s.to.toFixed(2)} s`),
          svg("rect", {x: x(s.from), y: y + l * kLane + 2, width: wide, height: kLane - 4, rx: 3}),
          text === undefined ? null
            : svg("text", {x: text, y: y + l * kLane + kLane / 2 + 4}, s.what)));
      });
    });
    y += height + (i + 1 < groups.length ? kGap : 4);
  });
  const step = step_of(end, Math.max(2, Math.floor((width - kLeft) / 90)));
  for (let t = 0; t <= end * 1.0001; t += step) {
    marks.push(svg("line", {x1: x(t), x2: x(t), y1: 0, y2: y, class: "tick"}),
      svg("text", {x: x(t), y: y + 16, class: "time"}, seconds(t, step)));
  }
  return svg("svg", {width, height: y + kAxis, role: "img", "aria-label": "Timeline"}, marks, boxes);
}

let groups = [];
const area = () => find("trace").querySelector(".timeline");

// null: the job has none.
export function show_trace(job, trace) {
  groups = trace ? lanes_of(trace) : [];
  if (groups.length === 0) return find("trace").replaceChildren(empty("It is drawn once the job is done."));
  find("trace").replaceChildren(el("div", {class: "timeline"}),
    el("p", {class: "lead"}, file_link(`/jobs/${job}/trace`, `job-${job}-trace.json`),
      " opens in chrome://tracing and in Perfetto too."));
  resize();
}

function resize() {
  if (groups.length > 0) area()?.replaceChildren(draw(groups, Math.max(360, area().clientWidth)));
}
addEventListener("resize", resize);
addEventListener("hashchange", () => setTimeout(resize));
