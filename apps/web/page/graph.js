// SPDX-License-Identifier: BSD-3-Clause
// The actors in tiers, and who waits for whom. Everybody keeps a place; what moves is how much.
const TIERS = [["coordinator", "evaluator"], ["shard", "aggregator"], ["worker"]];
/** What has lasted this long is shown as it is; what changes faster, as shares of the last seconds. */
const LONG_S = 1.5;

const percent = share => `${Math.round(100 * share)} %`;

/** In one word, what an actor is doing: by its habits where it changes many times a second. */
function mood(actor, slow) {
  if (actor.kind === "stuck") return "stuck";
  if (slow.has(actor.id)) return "slow";
  if (actor.since_s >= LONG_S) return actor.kind;
  return ["works", "waits", "idle"].reduce((best, kind) => (actor.shares[kind] ?? 0) > (actor.shares[best] ?? 0) ? kind : best);
}

function describe(actor) {
  if (actor.kind === "stuck") return actor.state;
  if (actor.since_s >= LONG_S) return `${actor.state}, ${timeText(Math.floor(actor.since_s))}`;
  return ["coordinator", "evaluator"].includes(actor.role) ? actor.state : `busy ${percent(actor.shares.works ?? 0)}`;
}

class Graph {
  constructor(place) {
    this.place = place;
    this.svg = draw(place, "svg", {role: "img", width: "100%"});
    const arrow = draw(draw(this.svg, "defs"), "marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto"});
    draw(arrow, "path", {d: "M0 0.5L8 4L0 7.5Z"});
    this.edgesLayer = draw(this.svg, "g");
    this.boxesLayer = draw(this.svg, "g");
    this.boxes = new Map();
    this.edges = new Map();
    new ResizeObserver(() => this.paint()).observe(place);
  }

  /** `slow`: ids of those that are. */
  show(actors, waits, slow) {
    Object.assign(this, {actors, waits, slow});
    this.paint();
  }

  paint() {
    if (!this.actors) return;
    const places = this.arrange();
    const strongest = this.waits.filter(wait => wait.share >= 0.05 && places.has(wait.from) && places.has(wait.to))
      .sort((a, b) => b.share - a.share).slice(0, 300);
    this.keep(this.edges, strongest, wait => `${wait.from} > ${wait.to}`, () => draw(this.edgesLayer, "path", {class: "wait", "marker-end": "url(#arrow)"}),
      (path, wait) => this.paintEdge(path, wait, places));
    this.keep(this.boxes, this.actors, actor => actor.id, () => this.newBox(), (box, actor) => this.paintBox(box, actor, places.get(actor.id)));
    const count = {};
    for (const actor of this.actors) count[mood(actor, this.slow)] = (count[mood(actor, this.slow)] ?? 0) + 1;
    const words = {works: "work", waits: "wait", idle: "idle", slow: "slow", stuck: "do not answer"};
    this.svg.setAttribute("aria-label", `${this.actors.length} actors: ` + Object.keys(count).map(kind => `${count[kind]} ${words[kind]}`).join(", "));
  }

  /** Elements by key: made, changed, taken away. */
  keep(known, items, keyOf, make, change) {
    const here = new Set(items.map(keyOf));
    for (const [key, element] of known) if (!here.has(key)) {
      element.remove();
      known.delete(key);
    }
    for (const item of items) {
      const key = keyOf(item);
      if (!known.has(key)) known.set(key, make());
      change(known.get(key), item);
    }
  }

  /** Where everybody stands: tiers from the top, each centred, in rows as wide as there is room. */
  arrange() {
    const room = Math.max(this.place.clientWidth, 240), places = new Map();
    const tiers = [[], [], []];
    for (const actor of this.actors) tiers[Math.max(TIERS.findIndex(roles => roles.includes(actor.role)), 0)].push(actor);
    let top = 2;
    for (const [number, tier] of tiers.entries()) {
      if (!tier.length) continue;
      const small = tier.length > 24, tight = room < 480, gap = small || tight ? 8 : 14, least = small ? 38 : tight ? 78 : 140;
      const most = Math.max(1, Math.min(tier.length, Math.floor((room - 2 + gap) / (least + gap))));
      const rows = Math.ceil(tier.length / most), columns = Math.ceil(tier.length / rows), gutter = rows > 1 ? gap : 0;
      const width = Math.min((room - gutter - 2 + gap) / columns - gap, small ? 38 : 190), height = small ? 26 : 46;
      for (const [i, actor] of tier.entries()) {
        const row = Math.floor(i / columns), inRow = row === rows - 1 ? tier.length - row * columns : columns;
        const left = (room + gutter - (inRow * (width + gap) - gap)) / 2 + (i % columns) * (width + gap);
        places.set(actor.id, {left, top: top + row * (height + gap), width, height, tier: number, tierTop: top, row, small, tight});
      }
      top += rows * (height + gap) - gap + 52;
    }
    this.svg.setAttribute("height", Math.max(top - 50, 0));
    return places;
  }

  newBox() {
    const box = draw(this.boxesLayer, "g", {class: "box"});
    draw(box, "title");
    draw(box, "rect", {class: "edge", rx: 7});
    draw(box, "circle", {class: "sign", r: 4.5});
    draw(box, "path", {class: "half"});
    draw(box, "text", {class: "name"});
    draw(box, "text", {class: "what"});
    draw(box, "rect", {class: "track", height: 3, rx: 1.5});
    draw(box, "rect", {class: "share", height: 3, rx: 1.5});
    return box;
  }

  paintBox(box, actor, at) {
    const [title, edge, sign, half, name, what, track, share] = box.children;
    const set = (element, attributes) => { for (const key in attributes) element.setAttribute(key, attributes[key]); };
    const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
    const short = (text, letters) => text.length > letters ? text.slice(0, Math.max(1, letters - 1)) + "…" : text;
    const words = describe(actor);
    set(box, {class: `box ${mood(actor, this.slow)}`, "data-actor": actor.id, transform: `translate(${at.left.toFixed(1)} ${at.top})`});
    say(title, `${actor.id} on node ${actor.node}: ${words}${actor.waits_for.length ? `, waits for ${actor.waits_for.join(", ")}` : ""}; mailbox ${actor.mailbox}`);
    set(edge, {width: at.width, height: at.height});
    const x = at.small ? 9 : at.tight ? 12 : 14, y = at.small ? at.height / 2 : 16;
    set(sign, {cx: x, cy: y});
    set(half, {d: `M${x} ${y - 4.5}A4.5 4.5 0 0 0 ${x} ${y + 4.5}Z`});
    set(name, {x: x + (at.small || at.tight ? 8 : 11), y: y + 4});
    say(name, at.small ? actor.id.split(" ").at(-1) : short(actor.id, (at.width - (at.tight ? 20 : 26)) / (at.tight ? 6.1 : 6.6)));
    set(what, {x: 10, y: 34, visibility: at.small ? "hidden" : "visible"});
    say(what, short(at.tight ? words : `${actor.node} · ${words}`, (at.width - 16) / 5.7));
    const busy = actor.kind === "stuck" ? 1 : actor.shares.works ?? 0;
    set(track, {x: 10, y: at.height - 7, width: at.width - 20, visibility: at.small ? "hidden" : "visible"});
    set(share, {x: 10, y: at.height - 7, width: ((at.width - 20) * busy).toFixed(1), visibility: at.small ? "hidden" : "visible"});
  }

  /** From whoever waits to whoever is waited for; two that wait for each other have two lines. */
  paintEdge(path, wait, places) {
    const from = places.get(wait.from), to = places.get(wait.to);
    const middle = box => box.left + box.width / 2;
    const lean = Math.max(-0.32, Math.min(0.32, (middle(from) - middle(to)) / (this.place.clientWidth || 1))) * to.width;
    let d;
    if (from.tier === to.tier) {
      const y = Math.min(from.top, to.top);
      d = `M${middle(from)} ${from.top}C${middle(from)} ${y - 34} ${middle(to)} ${y - 34} ${middle(to)} ${to.top - 1}`;
    } else {
      const up = from.tier > to.tier, side = up ? 7 : -7, low = up ? from : to, aside = low.row > 0;
      let x1 = middle(from) + side, y1 = up ? from.top : from.top + from.height, x2 = middle(to) + side + lean, y2 = up ? to.top + to.height + 1 : to.top - 1;
      let before = `M${x1.toFixed(1)} ${y1}`, after = "";
      // From beyond the first row the way leads along the gap beside the boxes, so that nothing runs behind them.
      if (aside && up) {
        [x1, y1] = [low.left - 3, low.tierTop - 10];
        before = `M${low.left.toFixed(1)} ${low.top + low.height * 0.35}H${x1.toFixed(1)}V${y1}`;
      } else if (aside) {
        [x2, y2] = [low.left - 7, low.tierTop - 10];
        after = `V${low.top + low.height * 0.6}H${(low.left - 1).toFixed(1)}`;
      }
      d = `${before}C${x1.toFixed(1)} ${(y1 + y2) / 2} ${x2.toFixed(1)} ${(y1 + y2) / 2} ${x2.toFixed(1)} ${y2}${after}`;
    }
    const whom = this.actors.find(actor => actor.id === wait.to);
    const why = whom ? mood(whom, this.slow) : "";
    path.setAttribute("d", d);
    path.setAttribute("class", `wait ${why === "slow" || why === "stuck" ? why : ""}`);
    path.style.strokeWidth = (0.8 + 2.4 * wait.share).toFixed(2);
    path.style.strokeOpacity = (0.25 + 0.65 * wait.share).toFixed(2);
    path.dataset.wait = `${wait.from} > ${wait.to}`;
  }
}
