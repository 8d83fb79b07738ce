// Elements and how things are written. All text goes in as text nodes and attributes, so nothing
// that a user named can become markup.

export const find = (id) => document.getElementById(id);

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== undefined && c !== null));
  return node;
}

// el("td", {class: "number", click: f}, "text", node, …)
export const el = (tag, properties = {}, ...children) =>
  fill(document.createElement(tag), properties, children);

export const svg = (tag, properties = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

// heads: [{name, number}] in the order of the cells.
export function table(heads, rows) {
  const kind = (i) => (heads[i].number ? "number" : undefined);
  return el("table", {},
    el("thead", {}, el("tr", {}, heads.map((h, i) => el("th", {class: kind(i), scope: "col"}, h.name)))),
    el("tbody", {}, rows.map((cells) =>
      el("tr", {}, cells.map((c, i) => el("td", {class: kind(i)}, c))))));
}

// For a <dl>.
export const fact = (name, ...value) => el("div", {}, el("dt", {}, name), el("dd", {}, ...value));
export const long_fact = (name, text) => el("div", {class: "line"}, el("dt", {}, name), el("dd", {}, text));

// A name, a share of the widest bar, and what it stands for in words.
export const share_bar = (name, share, text) => el("div", {class: "share"},
  el("span", {class: "of"}, name),
  svg("svg", {viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true"},
    svg("rect", {width: 100, height: 10, class: "track"}),
    svg("rect", {width: (100 * share).toFixed(2), height: 10, class: "fill"})),
  el("span", {class: "muted"}, text));

export const empty = (...text) => el("p", {class: "empty"}, ...text);

export const count = (n) => n.toLocaleString("en");

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; ++i) n /= 1000;
  return `${n.toFixed(i > 0 && n < 10 ? 1 : 0)} ${units[i]}`;
}

export function duration(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

// An element, so that the exact time is there to be pointed at.
export function when(unix) {
  if (!unix) return "";
  const date = new Date(unix * 1000);
  const ago = (Date.now() - date) / 1000;
  const text = ago < 5 ? "just now" : ago < 30 * 86400 ? `${duration(ago)} ago` : date.toLocaleDateString();
  return el("time", {datetime: date.toISOString(), title: date.toLocaleString()}, text);
}

export const badge = (text, kind = "") => el("span", {class: `badge ${kind}`}, text);

export function bar(fraction, name) {
  const node = el("progress", {max: 1, "aria-label": name});
  if (fraction !== undefined) node.value = fraction;
  return node;
}

// What is said already is not said again to who listens.
export function say(id, text) {
  if (find(id).textContent !== text) find(id).textContent = text;
}

// {photos, agree, accuracy, low, high} as a share with its interval, in words and drawn.
export function agreement(a) {
  if (!a.photos) return el("p", {class: "interval muted"}, "nobody has looked at any yet");
  const width = 200, x = (share) => 6 + share * (width - 12);
  return el("div", {class: "interval"},
    svg("svg", {width, height: 20, role: "img", "aria-label": percent(a.accuracy)},
      svg("line", {x1: x(0), x2: x(1), y1: 10, y2: 10, class: "scale"}),
      svg("line", {x1: x(a.low), x2: x(a.high), y1: 10, y2: 10, class: "range"}),
      svg("circle", {cx: x(a.accuracy), cy: 10, r: 5, class: "point"})),
    el("span", {}, el("strong", {}, percent(a.accuracy)),
      ` (${percent(a.low)} to ${percent(a.high)}), ${count(a.agree)} of ${count(a.photos)} photos`));
}
