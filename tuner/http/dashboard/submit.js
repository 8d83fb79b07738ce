// A job is asked for by a form, with what it would begin with beside it.
import {get, post, request} from "./api.js";
import {bytes, count, duration, el, fact, find, say} from "./dom.js";
import {collection, task} from "./task.js";

const kPause = 300;  // ms after the last key
const kNumbers = ["epochs", "batch", "lr", "top_k"];
let jobs = [], turn = 0, waiting = 0;

const form = () => find("submit_form");
const kind = () => form().elements.kind.value;

// The spec of POST /jobs: what is not said is left to the Tuner.
export function spec_of(values) {
  const spec = {};
  for (const key of ["kind", "model", "task", "collection"]) if (values.has(key)) spec[key] = values.get(key);
  const stores = values.getAll("stores");
  if (stores.length > 0) spec.stores = stores;
  for (const key of ["head", "only"]) if (values.get(key)) spec[key] = values.get(key);
  for (const key of kNumbers) if (values.get(key)) spec[key] = Number(values.get(key));
  if (values.get("promote")) spec.promote = {rule: "rule", always: true, candidate: false}[values.get("promote")];
  if (values.get("dry_run")) spec.dry_run = true;
  return spec;
}

// Fields of another kind of job are disabled, and so are no part of the form's values.
function fit_to_kind() {
  for (const part of form().querySelectorAll("[data-kinds]")) {
    part.hidden = part.disabled = !part.dataset.kinds.split(" ").includes(kind());
  }
}

const names = (stores) => stores.map((s) => `${s.store} (${count(s.photos)} photos, ${s.why})`).join(", ");

// The last job of the kind that is done.
function last_like(spec) {
  const done = jobs.filter((j) => j.kind === spec.kind && j.state === "done" && j.result.report);
  const last = done.findLast((j) => j.spec.model === spec.model) ?? done.at(-1);
  if (!last) return "No job of this kind is done yet to compare with.";
  const {report, photos, train_photos, val_photos} = last.result;
  return [el("a", {href: `#job/${last.job}`}, `Job ${last.job}`),
    ` took ${duration(report.overall_s)} for ${count(photos ?? train_photos + val_photos)} photos; stores sent ${bytes(report.row_bytes)}.`];
}

const kMeasures = "ndtrain job submit finetune --profile auto";

// What it takes, as the Tuner's planner foresees it.
function forecast_of({forecast, spec, stores, kept}) {
  if (!forecast) {
    return [fact("Forecast", "none: no job like it is done. ", ...(spec.kind === "finetune"
      ? ["Of the first one ", el("code", {}, kMeasures), " measures what it takes to have one."] : []))];
  }
  const here = kept[spec.cut ?? ""] ?? 0;
  const fewer = forecast.stores && forecast.stores.length < stores.length
    ? [fact("As fast by", `${forecast.stores.join(", ")} alone: they have all of the photos`)] : [];
  return [fact("Forecast", `${duration(forecast.overall_s ?? 0)} when it has begun, by `,
    el("a", {href: `#job/${forecast.by.replace("job ", "")}`}, forecast.by)),
    fact("Stores send", bytes(forecast.row_bytes ?? 0)), ...fewer,
    ...(here > 0 ? [fact("Features that are here already", `${count(here)} photos'`)] : [])];
}

function draw_plan(plan) {
  const nobody = plan.stores.length === 0 ? "none is here" : plan.stores.join(", ");
  find("submit_plan").replaceChildren(el("dl", {class: "facts one"},
    fact("Stores that take part", nobody), fact("Their photos", count(plan.photos)),
    ...(plan.waits_for.length > 0 ? [fact("Waits for", names(plan.waits_for))] : []),
    ...(plan.unknown_stores > 0 ? [fact("Waits for", `${count(plan.unknown_stores)} stores that nobody has met yet`)] : []),
    ...(plan.left_out.length > 0 ? [fact("Does without", names(plan.left_out))] : []),
    fact("Jobs before it", plan.jobs_before === 0 ? "none: it begins at once" : count(plan.jobs_before)),
    ...(plan.waits_for_job ? [fact("Waits for job", `${plan.waits_for_job.job}: ${plan.waits_for_job.why}`)] : []),
    ...forecast_of(plan), fact("Like it before", ...[last_like(plan.spec)].flat())),
    el("details", {}, el("summary", {}, "Everything that is asked for"),
      el("dl", {class: "facts"}, Object.entries(plan.spec).map(([k, v]) => fact(k, String(v) || "–")))));
}

async function plan() {
  const mine = ++turn;
  try {
    const found = await post("/jobs/plan", spec_of(new FormData(form())));
    if (mine !== turn) return;
    draw_plan(found);
    say("submit_refusal", "");
  } catch (e) {
    if (mine !== turn) return;
    find("submit_plan").replaceChildren();
    say("submit_refusal", e.message);
  }
  find("submit_send").disabled = find("submit_refusal").textContent !== "";
}

function plan_soon() {
  clearTimeout(waiting);
  waiting = setTimeout(plan, kPause);
}

const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, "0")).join("");

// Sends the chosen file to the Tuner, which knows it by its digest from then on.
async function send_model(file) {
  if (!file) return;
  if (!crypto.subtle) {
    return say("submit_sent", "A browser can do that over HTTPS and on the Tuner's machine only; ndtrain job submit -m does.");
  }
  say("submit_sent", `Sending ${file.name} …`);
  try {
    const digest = hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    const response = await request(`/models/${digest}`, {method: "PUT", body: file});
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error || `status ${response.status}`);
    add_model(digest, file.name);
    form().elements.model.value = digest;
    say("submit_sent", `${file.name} is on the Tuner.`);
    plan();
  } catch (e) {
    say("submit_sent", `${file.name} is not sent: ${e.message}`);
  }
}

function add_model(digest, ...text) {
  const select = form().elements.model;
  if ([...select.options].some((o) => o.value === digest)) return;
  select.append(el("option", {value: digest}, ...text));
}

async function submit(e) {
  e.preventDefault();
  find("submit_send").disabled = true;
  try {
    const name = form().elements.name.value;
    const spec = spec_of(new FormData(form()));
    const {job} = await post("/jobs", name ? {...spec, notes: {name}} : spec);
    form().elements.name.value = "";
    location.hash = `job/${job}`;
  } catch (e) {
    say("submit_refusal", e.message);
  }
  find("submit_send").disabled = false;
}

export function set_up_submit() {
  form().addEventListener("submit", submit);
  form().addEventListener("input", (e) => {
    if (e.target.type === "file") return;
    fit_to_kind();
    plan_soon();
  });
  find("submit_file").addEventListener("change", (e) => send_model(e.target.files[0]));
}

export async function show_submit() {
  const [stores, all] = await Promise.all([get("/stores"), get("/jobs")]);
  jobs = all;
  for (const job of jobs.filter((j) => j.spec.model).reverse()) {
    add_model(job.spec.model, `${job.spec.model.slice(0, 12)}, of job ${job.job}`);
  }
  const ticked = new FormData(form()).getAll("stores");
  find("submit_stores").replaceChildren(...stores.map((s) => el("label", {class: "check"},
    el("input", {type: "checkbox", name: "stores", value: s.store, checked: ticked.includes(s.store)}),
    s.collection === "default" ? s.store : `${s.store} (${s.collection})`)));
  form().elements.task.value ||= task();
  form().elements.collection.value ||= collection();
  fit_to_kind();
  await plan();
}
