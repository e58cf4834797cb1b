"use strict";
// The page on the jobs API: one stream of events says everything that changes.

const $ = (id) => document.getElementById(id);
const ENDED = ["finished", "failed", "cancelled"];
const SHAPES = [[1, 1, "Square"], [4, 3, "Landscape"], [16, 9, "Wide"], [3, 4, "Portrait"], [9, 16, "Tall"]];

let models = [];
let jobs = new Map();
let upload = null;
let stored = [];
let numStored = 0;
let shown = null;

async function call(path, options) {
  const answer = await fetch(path, options);
  const text = await answer.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* not of this server */ }
  if (!answer.ok) throw new Error(value?.error?.message || `The server answered ${answer.status}.`);
  return value;
}

const json = (method, value) => ({
  method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value),
});

function say(problem) {
  $("problem").textContent = problem;
  $("problem").hidden = !problem;
}

function model() {
  return models.find((one) => one.id === $("model").value);
}

/// A size of about the model's own area with this shape.
function sizeOf(one, across, down) {
  const { width, height } = one.defaults;
  const step = one.limits.size_multiple;
  const unit = Math.sqrt((width * height) / (across * down));
  const round = (edge) => Math.max(step, Math.round(edge / step) * step);
  return [round(across * unit), round(down * unit)];
}

function showModel() {
  const one = model();
  if (!one) return;
  const size = $("size");
  size.replaceChildren(new Option("Automatic", ""));
  if (!one.limits.fixed_size) {
    for (const [across, down, name] of SHAPES) {
      const [width, height] = sizeOf(one, across, down);
      size.append(new Option(`${name} · ${width}×${height}`, `${width}x${height}`));
    }
  }
  const isVideo = one.kind === "video";
  $("seconds-field").hidden = !isVideo;
  $("count-field").hidden = isVideo;
  $("seconds").placeholder = (one.defaults.num_frames / one.defaults.fps).toFixed(1);
  $("steps").placeholder = one.defaults.num_steps;
  const takes = one.start_image !== "no" || one.max_references > 0;
  $("image-field").hidden = !takes;
  $("image-label").textContent = one.max_references > 0 ? "Reference image" : "Start image";
  $("image").required = one.start_image === "required" && !upload;
}

async function loadModels() {
  models = (await call("/api/models")).models;
  const kept = localStorage.getItem("model");
  $("model").replaceChildren(...models.map((one) => new Option(one.name, one.id)));
  const chosen = models.find((one) => one.id === kept) || models.find((one) => one.is_chosen) || models[0];
  if (chosen) $("model").value = chosen.id;
  else say("There is no model on this computer yet: get one in Safelight's window.");
  showModel();
}

async function chooseImage() {
  const file = $("image").files[0];
  removeImage();
  if (!file) return;
  say("");
  $("generate").disabled = true;
  try {
    const query = `?name=${encodeURIComponent(file.name)}`;
    upload = (await call(`/api/uploads${query}`, { method: "POST", body: file })).upload;
    $("image-thumb").src = URL.createObjectURL(file);
    $("image-chosen").hidden = false;
    $("image").required = false;
  } catch (err) {
    say(err.message);
  } finally {
    $("generate").disabled = false;
  }
}

function removeImage() {
  if ($("image-thumb").src) URL.revokeObjectURL($("image-thumb").src);
  upload = null;
  $("image-thumb").removeAttribute("src");
  $("image-chosen").hidden = true;
}

function order() {
  const one = model();
  const form = { model: one.id, prompt: $("prompt").value };
  if ($("negative").value.trim()) form.negative_prompt = $("negative").value;
  if ($("size").value) {
    const [width, height] = $("size").value.split("x").map(Number);
    Object.assign(form, { width, height });
  }
  if ($("steps").value) form.num_steps = Number($("steps").value);
  if ($("seed").value) form.seed = Number($("seed").value);
  if (one.kind === "image") form.batch_size = Number($("count").value) || 1;
  else if ($("seconds").value) {
    const secs = Number($("seconds").value);
    const stride = one.limits.frame_stride || 1;
    form.secs = secs;
    form.num_frames = Math.round((secs * one.defaults.fps) / stride) * stride + 1;
  }
  const whole = { form };
  if (upload) {
    if (one.max_references > 0) whole.references = [upload];
    else whole.start_image = upload;
  }
  return whole;
}

async function generate(event) {
  event.preventDefault();
  say("");
  $("generate").disabled = true;
  try {
    await call("/api/jobs", json("POST", order()));
  } catch (err) {
    say(err.message);
  } finally {
    $("generate").disabled = false;
  }
}

function timeText(secs) {
  return secs >= 90 ? `${Math.round(secs / 60)} min` : `${Math.round(secs)} s`;
}

function showNow() {
  const job = [...jobs.values()].find((one) => one.status === "running");
  $("now").hidden = !job;
  const waiting = [...jobs.values()].filter((one) => one.status === "waiting" || one.status === "paused");
  $("state").textContent = job ? "Working" : waiting.length ? "Waiting" : "Ready";
  if (!job) return $("preview").removeAttribute("src");
  $("now").dataset.id = job.id;
  $("now-title").textContent = job.prompt;
  $("now-progress").value = job.progress;
  const facts = [job.activity];
  if (job.step) facts.push(`step ${job.step} of ${job.num_steps}`);
  if (job.seconds_left) facts.push(`about ${timeText(job.seconds_left)} left`);
  $("now-text").textContent = facts.filter(Boolean).join(" · ");
}

function showQueue() {
  const waiting = [...jobs.values()].filter((one) => one.status === "waiting" || one.status === "paused");
  $("queue").hidden = waiting.length === 0;
  $("queue-list").replaceChildren(...waiting.map((job) => {
    const row = document.createElement("li");
    const title = document.createElement("span");
    title.textContent = job.status === "paused" ? `Paused: ${job.prompt}` : job.prompt;
    row.append(title);
    if (job.status === "paused") row.append(button("Resume", () => change(job, json("PATCH", { action: "resume" }))));
    row.append(button("Remove", () => change(job, { method: "DELETE" })));
    return row;
  }));
}

function button(name, act) {
  const one = document.createElement("button");
  one.type = "button";
  one.textContent = name;
  one.addEventListener("click", act);
  return one;
}

async function change(job, options) {
  try { await call(`/api/jobs/${job.id}`, options); } catch (err) { say(err.message); }
}

/// Results of this run's jobs, the newest first, and then the stored ones.
function allResults() {
  const finished = [...jobs.values()].filter((one) => one.status === "finished");
  finished.sort((a, b) => (BigInt(a.id) < BigInt(b.id) ? 1 : -1));
  const made = finished.flatMap((job) => job.results.slice(0, job.num_frames > 1 ? 1 : undefined)
    .map((id) => ({ ...job, id, secs: job.seconds, isVideo: job.num_frames > 1 })));
  const before = stored.map(({ id, made, is_video, settings }) => ({ ...settings, id, made, isVideo: is_video }));
  return [...new Map([...before.reverse(), ...made.reverse()].map((one) => [one.id, one])).values()].reverse();
}

function showResults() {
  const failed = [...jobs.values()].filter((one) => one.status === "failed");
  const all = allResults();
  $("no-results").hidden = all.length + failed.length > 0;
  $("more-results").hidden = stored.length >= numStored;
  const list = $("results");
  const known = new Map([...list.children].map((row) => [row.dataset.key, row]));
  const row = (one, show) => known.get(one.id) || resultRow(one, show);
  list.replaceChildren(...failed.map((job) => row(job, showFailed)), ...all.map((one) => row(one, showResult)));
}

function resultRow(one, show) {
  const row = document.createElement("li");
  row.dataset.key = one.id;
  const face = button("", () => view(one));
  face.setAttribute("aria-label", one.prompt || one.made);
  show(face, one);
  row.append(face);
  return row;
}

function showFailed(face, job) {
  face.className = "failed";
  face.textContent = job.error ? `${job.error.message}. ${job.error.advice}` : "Failed";
  face.disabled = true;
}

function showResult(face, one) {
  const image = document.createElement("img");
  image.loading = "lazy";
  image.alt = one.prompt;
  image.src = `/api/results/${one.id}/thumbnail`;
  face.append(image);
  if (one.isVideo && one.fps) {
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.textContent = `▶ ${(one.num_frames / one.fps).toFixed(1)} s`;
    face.append(mark);
  }
}

async function loadStored() {
  const page = await call(`/api/results?offset=${stored.length}&limit=60`);
  stored.push(...page.results);
  numStored = page.total;
  showResults();
}

function view(one) {
  shown = one;
  const url = `/api/results/${one.id}/file`;
  const media = document.createElement(one.isVideo ? "video" : "img");
  if (one.isVideo) Object.assign(media, { controls: true, loop: true, autoplay: true, muted: true, playsInline: true });
  else media.alt = one.prompt;
  media.src = url;
  $("viewer-media").replaceChildren(media);
  $("viewer-prompt").textContent = one.prompt;
  const facts = [["Model", one.model], ["Size", `${one.width}×${one.height}`], ["Seed", one.seed],
    ["Steps", one.num_steps], ["Made in", one.secs ? timeText(one.secs) : null], ["Date", one.made]];
  $("viewer-facts").replaceChildren(...facts.filter(([, value]) => value !== null && value !== undefined)
    .flatMap(([name, value]) => {
      const [term, text] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      text.textContent = value;
      return [term, text];
    }));
  $("viewer-save").href = url;
  $("viewer").showModal();
}

function useAgain() {
  $("prompt").value = shown.prompt;
  $("seed").value = shown.seed ?? "";
  if (models.some((one) => one.id === shown.model)) {
    $("model").value = shown.model;
    showModel();
  }
  const size = `${shown.width}x${shown.height}`;
  if (![...$("size").options].some((one) => one.value === size)) $("size").append(new Option(size.replace("x", "×"), size));
  $("size").value = size;
  $("viewer").close();
  $("prompt").focus();
}

function closed() {
  $("viewer-media").replaceChildren();
}

function follow() {
  const events = new EventSource("/api/events");
  events.addEventListener("open", () => { jobs = new Map(); showResults(); showQueue(); showNow(); });
  events.addEventListener("job", (event) => {
    const job = JSON.parse(event.data);
    const before = jobs.get(job.id);
    jobs.set(job.id, job);
    if (before?.status !== job.status) { showQueue(); if (ENDED.includes(job.status)) showResults(); }
    showNow();
  });
  events.addEventListener("preview", (event) => {
    const { id, jpeg } = JSON.parse(event.data);
    if ($("now").dataset.id === id) $("preview").src = `data:image/jpeg;base64,${jpeg}`;
  });
  events.addEventListener("error", () => { $("state").textContent = "Connection lost, trying again…"; });
}

$("form").addEventListener("submit", generate);
$("model").addEventListener("change", () => { localStorage.setItem("model", $("model").value); showModel(); });
$("image").addEventListener("change", chooseImage);
$("image-remove").addEventListener("click", () => { $("image").value = ""; removeImage(); showModel(); });
$("cancel").addEventListener("click", () => change({ id: $("now").dataset.id }, { method: "DELETE" }));
$("viewer-close").addEventListener("click", () => $("viewer").close());
$("viewer").addEventListener("close", closed);
$("more-results").addEventListener("click", () => loadStored().catch((err) => say(err.message)));
$("viewer-again").addEventListener("click", useAgain);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
});
loadModels().then(follow).then(loadStored).catch((err) => say(err.message));
