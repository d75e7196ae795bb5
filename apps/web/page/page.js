// SPDX-License-Identifier: BSD-3-Clause
// Shows the data that the run sends once a second. All of it is inserted as text, never as markup.
const byId = id => document.getElementById(id);
/** Writes a text only where it has changed. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function make(name, classes = "") {
  const made = document.createElement(name);
  made.className = classes;
  return made;
}
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const grouped = number => number === null || number === undefined ? "–" : Math.round(number).toLocaleString("en").replaceAll(",", "\u202f");

function bytesText(bytes) {
  let unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return `${unit === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}

/** Gives `parent` one child per item. Existing children are filled again, not replaced. */
function rows(parent, items, create, fill) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(create());
  items.forEach((item, i) => fill(parent.children[i], item));
}

const STATES = {
  connecting: ["idle", "connecting"], starts: ["idle", "starts"], waits: ["waits", "waits"], runs: ["works", "runs"],
  done: ["done", "done"], failed: ["stuck", "failed"], interrupted: ["slow", "interrupted"], lost: ["stuck", "no connection"],
};
const ENDS = ["done", "failed", "interrupted"];
/** After this long without data the page says that it is outdated. */
const SILENCE_MS = 5000;

class Page {
  constructor() {
    this.loss = new Chart(byId("loss"), [
      {key: "test", label: "test", style: "strong", dots: true, text: lossText},
      {key: "train", label: "training", style: "dashed", text: lossText},
      {key: "round", label: "each round", style: "weak", range: true, text: lossText}], logScale, "no round yet");
    this.accuracy = new Chart(byId("accuracy"), [{key: "test", label: "test", style: "strong", dots: true, text: shareText}], shareScale, "no evaluation yet");
    this.graph = new Graph(document.querySelector("#actors .graph"));
    this.newest = null;
    this.heardAt = Date.now();
    this.connected = false;
    document.addEventListener("visibilitychange", () => this.show());
    setInterval(() => this.watch(), 1000);
    this.listen();
  }

  listen() {
    const events = new EventSource("events");
    events.onopen = () => { this.connected = true; };
    events.onmessage = message => {
      let said;
      try { said = JSON.parse(message.data); } catch { return; }
      if (!said.job) return;
      this.newest = said;
      this.heardAt = Date.now();
      this.connected = true;
      if (ENDS.includes(said.state)) events.close();
      this.show();
    };
    events.onerror = () => {
      this.connected = false;
      if (events.readyState === EventSource.CLOSED && !this.ended()) setTimeout(() => this.listen(), 2000);
      this.watch();
    };
  }

  ended() { return this.newest !== null && ENDS.includes(this.newest.state); }

  show() {
    if (document.hidden || !this.newest) return;
    const {job, progress, curves, events, cluster, result} = this.newest;
    say(byId("job"), job.name);
    say(byId("about"), [job.protocol, counted(job.workers, "worker"), counted(job.shards, "shard"), counted(job.nodes, "node"), job.device, `seed ${job.seed}`].join(" · "));
    const done = this.newest.state === "done" ? 1 : progress?.done ?? 0;
    document.querySelector("#bar div").style.width = percent(done);
    byId("bar").setAttribute("aria-valuenow", Math.round(100 * done));
    document.title = `${this.ended() ? STATES[this.newest.state][1] : progress ? percent(done) : "starts"} · ${job.name}`;
    this.showFigures(progress, curves, result);
    this.showCurves(curves, job, result?.seconds ?? progress?.seconds ?? 0);
    this.showActors(cluster);
    this.showSteps(cluster.stragglers);
    this.showLanes(cluster);
    rows(document.querySelector("#events ol"), events.toReversed(), () => { const item = make("li"); item.append(make("time"), make("span")); return item; },
      (item, [at, text]) => { say(item.children[0], clockText(at)); say(item.children[1], text); });
    document.querySelector("#events .none").hidden = events.length > 0;
    this.watch();
  }

  showFigures(progress, curves, result) {
    const last = curves.evaluations.at(-1);
    const figures = [
      ["Step", grouped(result?.steps ?? progress?.step)],
      ["Epoch", progress || result ? (result?.epochs ?? progress.epoch).toFixed(2) : "–"],
      ["Samples/s", grouped(progress?.samples_per_s)],
      ["Test loss", lossText(last?.test_loss)],
      ["Accuracy", shareText(last?.test_accuracy)],
      ["Time", progress || result ? clockText(result?.seconds ?? progress.seconds) : "–"],
      ["Left", this.ended() ? "–" : progress?.left_s !== null && progress?.left_s !== undefined ? clockText(Math.ceil(progress.left_s)) : "–"],
    ];
    rows(byId("figures"), figures, () => { const item = make("div"); item.append(make("dt"), make("dd")); return item; },
      (item, [name, value]) => { say(item.children[0], name); say(item.children[1], value); });
  }

  showCurves(curves, job, until) {
    const values = key => curves.evaluations.map(evaluation => [evaluation.seconds, evaluation[key]]), rounds = smoothed(curves.losses, 80);
    this.loss.show({until, test: values("test_loss"), train: values("train_loss"), round: rounds, ranges: rounds.map(([x, , low, high]) => [x, low, high])});
    this.accuracy.show({until, test: values("test_accuracy"), goal: job.target_accuracy});
  }

  showActors(cluster) {
    this.graph.show(cluster.actors ?? [], cluster.waits ?? []);
    byId("folded").hidden = !cluster.actors?.some(many);
    const cause = byId("cause");
    const held = !this.ended() && cluster.causes?.length > 0;
    const verdicts = (cluster.stragglers?.workers ?? []).filter(worker => worker.slow && !worker.stuck && worker.verdict).map(worker => `${worker.id} is ${worker.verdict.replace(":", ",")}`);
    cause.className = held ? "slow" : "";
    say(cause, held ? `No step for a while: ${cluster.causes.join("; ")}`
      : cluster.silent ? cluster.silent
      : !cluster.actors ? "The cluster has not said anything yet."
      : cluster.actors.length === 0 ? "No actor runs."
      : [this.ended() ? "As it was at the end." : "The steps go on.", verdicts.length ? `${verdicts.slice(0, 2).join("; ")}.` : ""].join(" "));
  }

  /** Workers, or of many those in trouble, and the others of each node as one. */
  showSteps(stragglers) {
    const nodes = stragglers?.nodes ?? [], items = [...(stragglers?.workers ?? []), ...nodes], median = stragglers?.median_ms ?? 0;
    const longest = roundUp(Math.max(...items.map(item => item.high_ms ?? item.compute_ms), median, 0.01));
    const part = ms => `${(100 * ms / longest).toFixed(1)}%`;
    rows(document.querySelector("#steps .bars"), items, () => {
      const item = make("li"), track = make("div", "track");
      track.append(make("div", "fill"), make("div", "range"), make("div", "median"));
      item.append(make("span"), track, make("span", "value"), make("span", "verdict"));
      return item;
    }, (item, worker) => {
      const [name, track, value, verdict] = item.children, [fill, range, line] = track.children;
      item.className = worker.stuck ? "stuck" : worker.slow ? "slow" : "";
      say(name, worker.count ? `${worker.id} (${worker.count})` : worker.id);
      if (name.title !== name.textContent) name.title = name.textContent;
      fill.style.width = part(worker.compute_ms);
      range.style.left = part(worker.low_ms ?? 0);
      range.style.width = part((worker.high_ms ?? 0) - (worker.low_ms ?? 0));
      line.style.left = part(median);
      say(value, `${worker.compute_ms.toFixed(worker.compute_ms < 10 ? 2 : 1)} ms`);
      say(verdict, worker.stuck || worker.slow ? worker.verdict : "");
    });
    say(document.querySelector("#steps .aside"), items.length === 0 ? "No worker has made a step yet."
      : [`The line is the median, ${median.toFixed(median < 10 ? 2 : 1)} ms.`, nodes.length ? "Of each node: how many, the median, and within it the range." : "",
        stragglers.left_out ? `${counted(stragglers.left_out, "more node")} not shown.` : ""].filter(Boolean).join(" "));
  }

  showLanes({nodes = [], lanes = [], other_lanes: others}) {
    const row = (...classes) => () => {
      const made = make("tr");
      made.append(...classes.map(name => make("td", name)));
      return made;
    };
    const fill = (item, texts) => texts.forEach((text, i) => say(item.children[i], text));
    byId("nodes").hidden = nodes.length === 0;
    const links = others?.count ? [...lanes, {...others, name: counted(others.count, lanes.length ? "other lane" : "idle lane")}] : lanes;
    byId("links").hidden = links.length === 0;
    rows(byId("nodes").tBodies[0], nodes, row("", "", "n", "n"), (item, node) => {
      fill(item, [node.name, node.silent || "here", node.pid ? String(node.pid) : "–", node.resident_bytes ? bytesText(node.resident_bytes) : "–"]);
      item.children[1].className = node.silent ? "stuck" : "";
    });
    rows(byId("links").tBodies[0], links, row("", "n", "n", "n"), (item, lane) => fill(item, [lane.name ?? `${lane.from} → ${lane.to}`, bytesText(lane.sent_per_s), bytesText(lane.bytes_sent), bytesText(lane.bytes_queued)]));
    say(document.querySelector("#lanes .none"), nodes.length === 0 ? "No node has said anything yet." : links.length === 0 ? "No lanes: one process does it all." : "");
  }

  /** What the corner and the line beneath it say; the page ages even when nothing comes. */
  watch() {
    const silent = Date.now() - this.heardAt, lost = !this.ended() && (silent > SILENCE_MS || (!this.connected && this.newest !== null && silent > 2000));
    const state = lost && this.newest ? "lost" : this.newest?.state ?? (lost ? "lost" : "connecting");
    const [mark, words] = STATES[state];
    byId("state").firstElementChild.className = `mark ${mark}`;
    say(byId("state").lastElementChild, words);
    document.querySelector("main").classList.toggle("old", lost);
    const reason = this.newest?.reason, sentence = {
      lost: this.newest ? `Nothing has come from the run since ${new Date(this.heardAt).toLocaleTimeString("en-GB")}. What you see is of that moment; the page keeps trying.`
        : "The run does not answer. The page keeps trying.",
      waits: `The job waits${reason ? `: ${reason}` : ""}.`,
      done: "The run is done. This is how it ended; its server is gone, so keep the page open for as long as you want to look at it.",
      failed: `The job failed: ${reason}`,
      interrupted: `The run was interrupted${reason && reason !== "interrupted" ? `: ${reason}` : ""}. This is how far it came.`,
    }[state];
    const notice = byId("notice");
    notice.hidden = !sentence;
    notice.className = {lost: "stuck", failed: "stuck", interrupted: "slow", done: "works"}[state] ?? "";
    say(notice, sentence ?? "");
  }
}

new Page();
