// Photos are added by choosing their files or dropping them on the page: the Tuner hands each to a store.
import {query, request} from "./api.js";
import {count, el, find, say} from "./dom.js";
import {collection} from "./task.js";

const kAtOnce = 4, kTooMany = 429;
let adding = false;

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

// What the store says of it. A store that has enough to do is asked again when it said.
async function add(file) {
  for (;;) {
    const response = await request(query("/uploads", {collection: collection()}), {method: "POST", body: file});
    const body = await response.json().catch(() => ({}));
    if (response.ok) return body;
    if (response.status !== kTooMany) throw new Error(body.error || `status ${response.status}`);
    await sleep(Number(response.headers.get("Retry-After")) || 1);
  }
}

const summary = (labels) => [...labels].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${count(n)} ${name}`).join(", ");

async function add_all(files) {
  if (adding || files.length === 0) return;
  adding = true;
  const rest = [...files], labels = new Map();
  let added = 0;
  find("add_refused").replaceChildren();
  const tell = (text) => say("add_said", `${count(added)} of ${count(files.length)} photos added${text}`);
  const some = async () => {
    for (let file; (file = rest.shift());) {
      try {
        const {label} = await add(file);
        ++added;
        labels.set(label ?? "not labelled yet", (labels.get(label ?? "not labelled yet") ?? 0) + 1);
      } catch (e) {
        find("add_refused").append(el("li", {}, `${file.name}: ${e.message}`));
      }
      tell(" …");
    }
  };
  await Promise.all(Array.from({length: kAtOnce}, some));
  tell(labels.size > 0 ? `: ${summary(labels)}` : "");
  adding = false;
}

// `added()`: there are more photos now.
export function set_up_add_photos(added) {
  const input = find("add_files"), page = find("overview");
  const take = async (files) => {
    await add_all([...files]);
    added();
  };
  input.addEventListener("change", async () => {
    await take(input.files);
    input.value = "";
  });
  page.addEventListener("dragover", (e) => e.preventDefault());
  page.addEventListener("drop", (e) => {
    e.preventDefault();
    take(e.dataTransfer.files);
  });
}
