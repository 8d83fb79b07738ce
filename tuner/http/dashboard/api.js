// What the page asks of the Tuner.
import {el, find} from "./dom.js";

const kToken = "ndtrain token";
let asking = null;  // the dialog, while it is open

function askForToken(refused) {
  asking ??= new Promise((resolve) => {
    const dialog = find("token"), input = dialog.querySelector("input");
    find("token_why").textContent =
      refused ? "That token was refused."
        : "It stays in this browser tab. Without one: `ndtrain dashboard` makes a link that signs a browser in.";
    input.value = "";
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(kToken, input.value);
      asking = null;
      resolve();
    }, {once: true});
    dialog.showModal();
  });
  return asking;
}

// Any answer but 401, for which a person is asked.
export async function request(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(kToken);
    const headers = {...options.headers};
    if (token) headers.Authorization = `Bearer ${token}`;
    const response = await fetch(path, {...options, headers});
    if (response.status !== 401) return response;
    if (token === sessionStorage.getItem(kToken)) await askForToken(Boolean(token));
  }
}

export class Refusal extends Error {
  constructor(status, what) {
    super(what);
    this.status = status;
  }
}

async function json(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, body.error || `status ${response.status}`);
  return body;
}

export const get = async (path) => json(await request(path));
// null: there is none.
export const find_one = (path) => get(path).catch((e) => {
  if (e.status === 404) return null;
  throw e;
});
const send = (method) => async (path, body) =>
  json(await request(path, {method, body: body === undefined ? undefined : JSON.stringify(body)}));
export const put = send("PUT");
export const post = send("POST");
export const remove = send("DELETE");

export const query = (path, values) => {
  const given = Object.entries(values).filter(([, v]) => v !== "" && v !== undefined);
  return `${path}?${new URLSearchParams(given)}`;
};

// A link that keeps what `path` answers as a file: a link by itself could carry no token.
export const file_link = (path, name) => el("a", {href: path, download: name, click: async (e) => {
  e.preventDefault();
  const response = await request(path);
  if (!response.ok) return;
  const address = URL.createObjectURL(await response.blob());
  el("a", {href: address, download: name}).click();
  URL.revokeObjectURL(address);
}}, name);

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const shown = () => document.hidden && new Promise((resolve) => {
  const look = () => {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", look);
    resolve();
  };
  document.addEventListener("visibilitychange", look);
});

function deliver(block, on) {
  const field = (name) => block.split("\n").find((l) => l.startsWith(`${name}: `))?.slice(name.length + 2);
  const event = field("event");
  if (event && on[event]) on[event](JSON.parse(field("data")));
}

// {task: {alias: version}}, as the events have it.
function aliases_of(versions) {
  const tasks = {};
  for (const v of versions) {
    tasks[v.task] ??= {};
    for (const alias of v.aliases) tasks[v.task][alias] = v.version;
  }
  return tasks;
}

// As many follow the events as may.
async function look(on, say) {
  on.stores(await get("/stores"));
  on.jobs((await get("/jobs")).reverse().slice(0, 20));
  on.versions(aliases_of(await get("/versions")));
  say("looks every 15 s", "good");
  await sleep(15000);
}

// Until the stream ends.
async function read_events(on, say, stop) {
  const response = await request("/events", {signal: stop});
  if (response.status === 503) return look(on, say);
  if (!response.ok) throw new Refusal(response.status, "no events");
  say("live", "good");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) deliver(block, on);
  }
}

// Calls on.stores, on.jobs and on.versions when they change, as long as the page is open; while it
// is not looked at, it takes no stream. An EventSource could send no token.
export async function follow(on, say) {
  for (;;) {
    await shown();
    const stop = new AbortController();
    const hide = () => document.hidden && stop.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      await read_events(on, say, stop.signal);
    } catch (e) {
      if (!stop.signal.aborted) {
        say("the Tuner does not answer; trying again", "bad");
        await sleep(3000);
      }
    }
    document.removeEventListener("visibilitychange", hide);
  }
}
