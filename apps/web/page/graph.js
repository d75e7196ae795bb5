// SPDX-License-Identifier: BSD-3-Clause
// The actors in tiers, and who waits for whom. Each keeps its place; only the amounts change. Many actors of a node share a box.
const TIERS = [["coordinator", "evaluator"], ["shard"], ["aggregator"], ["worker"]];
/** A state that has lasted this long is shown as it is; one that changes faster, as shares of the last seconds. */
const LONG_S = 1.5;
const MOODS = {works: ["works", "work"], waits: ["waits", "wait"], idle: ["is idle", "are idle"], slow: ["is slow", "are slow"], stuck: ["does not answer", "do not answer"]};

const percent = share => `${Math.round(100 * share)} %`;
const many = actor => Object.keys(actor.of).length > 0;
const sizeOf = actor => many(actor) ? Object.values(actor.of).reduce((a, b) => a + b) : 1;
/** "3 work, 1 is slow": troubled ones first. */
const moodsText = of => Object.keys(MOODS).toReversed().filter(mood => of[mood]).map(mood => `${of[mood]} ${MOODS[mood][of[mood] === 1 ? 0 : 1]}`).join(", ");

function describe(actor) {
  if (many(actor)) return ["stuck", "slow"].some(mood => actor.of[mood]) ? moodsText(actor.of) : `busy ${percent(actor.shares.works ?? 0)}`;
  if (actor.mood === "stuck") return actor.state;
  if (actor.since_s >= LONG_S) return `${actor.state}, ${timeText(Math.floor(actor.since_s))}`;
  return ["coordinator", "evaluator"].includes(actor.role) ? actor.state : `busy ${percent(actor.shares.works ?? 0)}`;
}
/** A group of a role, with its size. */
function namesText(ids) {
  const of = {};
  for (const id of ids) (of[id.replace(/ \d+$/, "")] ??= []).push(id);
  return Object.entries(of).map(([role, some]) => some.length > 4 ? counted(some.length, role) : some.join(", ")).join(", ");
}
/** The label of a box; of a group with its size. */
const title = actor => many(actor) ? `${sizeOf(actor)} ${actor.role}s` : actor.id;

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

  show(actors, waits) {
    Object.assign(this, {actors, waits});
    this.moods = new Map(actors.map(actor => [actor.id, actor.mood]));
    this.paint();
  }

  paint() {
    if (!this.actors) return;
    const places = this.arrange();
    const strongest = this.waits.filter(wait => wait.share >= 0.05 && places.has(wait.from) && places.has(wait.to));
    this.keep(this.edges, strongest, wait => `${wait.from} > ${wait.to}`, () => draw(this.edgesLayer, "path", {class: "wait", "marker-end": "url(#arrow)"}),
      (path, wait) => this.paintEdge(path, wait, places));
    this.keep(this.boxes, this.actors, actor => actor.id, () => this.newBox(), (box, actor) => this.paintBox(box, actor, places.get(actor.id)));
    const count = {};
    for (const actor of this.actors) for (const [mood, some] of Object.entries(many(actor) ? actor.of : {[actor.mood]: 1})) count[mood] = (count[mood] ?? 0) + some;
    this.svg.setAttribute("aria-label", `${counted(this.actors.reduce((sum, actor) => sum + sizeOf(actor), 0), "actor")}: ${moodsText(count)}`);
  }

  /** Elements by key: created, changed, removed. */
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

  /** The places of all boxes: tiers from the top, each centred, in rows as wide as there is room. */
  arrange() {
    const room = Math.max(this.place.clientWidth, 240), places = new Map();
    const tiers = TIERS.map(roles => this.actors.filter(actor => roles.includes(actor.role)));
    let top = 2;
    for (const [number, tier] of tiers.entries()) {
      if (!tier.length) continue;
      const tight = room < 480, gap = tight ? 8 : 14, longest = Math.max(...tier.map(actor => title(actor).length));
      const least = tight ? Math.max(84, 24 + 6.4 * longest) : 140, height = 46;
      const most = Math.max(1, Math.min(tier.length, Math.floor((room - 2 + gap) / (least + gap))));
      const rows = Math.ceil(tier.length / most), columns = Math.ceil(tier.length / rows), gutter = rows > 1 ? gap : 0;
      const width = Math.min((room - gutter - 2 + gap) / columns - gap, 190);
      for (const [i, actor] of tier.entries()) {
        const row = Math.floor(i / columns), inRow = row === rows - 1 ? tier.length - row * columns : columns;
        const left = (room + gutter - (inRow * (width + gap) - gap)) / 2 + (i % columns) * (width + gap);
        places.set(actor.id, {left, top: top + row * (height + gap), width, height, tier: number, tierTop: top, row, tight});
      }
      top += rows * (height + gap) - gap + 52;
    }
    this.svg.setAttribute("height", Math.max(top - 50, 0));
    return places;
  }

  newBox() {
    const box = draw(this.boxesLayer, "g", {class: "box"});
    draw(box, "title");
    draw(box, "rect", {class: "behind", x: 4, y: 4, rx: 7});
    draw(box, "rect", {class: "edge", rx: 7});
    draw(box, "circle", {class: "sign", r: 4.5});
    draw(box, "path", {class: "half"});
    draw(box, "text", {class: "name"});
    draw(box, "text", {class: "what"});
    draw(box, "rect", {class: "track", height: 3, rx: 1.5});
    for (const what of ["works", "slow", "stuck"]) draw(box, "rect", {class: `share ${what}`, height: 3, rx: 1.5});
    return box;
  }

  paintBox(box, actor, at) {
    const [about, behind, edge, sign, half, name, what, track, ...shares] = box.children;
    const set = (element, attributes) => { for (const key in attributes) element.setAttribute(key, attributes[key]); };
    const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
    const short = (text, letters) => text.length > letters ? text.slice(0, Math.max(1, letters - 1)) + "…" : text;
    const words = describe(actor), size = sizeOf(actor), where = actor.node || "other nodes";
    set(box, {class: `box ${actor.mood}`, "data-actor": actor.id, transform: `translate(${at.left.toFixed(1)} ${at.top})`});
    say(about, many(actor) ? `${size} ${actor.id}: ${moodsText(actor.of)}; mailboxes ${actor.mailbox}`
      : `${actor.id} on node ${actor.node}: ${words}${actor.waits_for.length ? `, waits for ${namesText(actor.waits_for)}` : ""}; mailbox ${actor.mailbox}`);
    set(edge, {width: at.width, height: at.height});
    set(behind, {width: at.width, height: at.height, visibility: many(actor) ? "visible" : "hidden"});
    const x = at.tight ? 12 : 14, y = 16;
    set(sign, {cx: x, cy: y});
    set(half, {d: `M${x} ${y - 4.5}A4.5 4.5 0 0 0 ${x} ${y + 4.5}Z`});
    set(name, {x: x + (at.tight ? 8 : 11), y: y + 4});
    say(name, short(title(actor), (at.width - (at.tight ? 20 : 26)) / (at.tight ? 6.1 : 6.6)));
    set(what, {x: 10, y: 34});
    say(what, short(at.tight && !many(actor) ? words : `${where} · ${words}`, (at.width - 16) / 5.7));
    // One bar: the troubled ones, and the work of the others.
    const room = at.width - 20, of = many(actor) ? actor.of : {[actor.mood]: 1}, part = mood => (of[mood] ?? 0) / size;
    const slow = many(actor) ? part("slow") : part("slow") * (actor.shares.works ?? 0), stuck = part("stuck");
    const parts = [part("slow") > 0 && !many(actor) ? 0 : Math.min(actor.shares.works ?? 0, 1 - slow - stuck), slow, stuck];
    set(track, {x: 10, y: at.height - 7, width: room});
    let left = 10;
    for (const [i, share] of shares.entries()) {
      set(share, {x: left.toFixed(1), y: at.height - 7, width: (room * parts[i]).toFixed(1)});
      left += room * parts[i];
    }
  }

  /** From the actor that waits to the one that is waited for; two that wait for each other have two lines. */
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
      // From beyond the first row the line runs along the gap beside the boxes, so that none runs behind them.
      if (aside && up) {
        [x1, y1] = [low.left - 3, low.tierTop - 10];
        before = `M${low.left.toFixed(1)} ${low.top + low.height * 0.35}H${x1.toFixed(1)}V${y1}`;
      } else if (aside) {
        [x2, y2] = [low.left - 7, low.tierTop - 10];
        after = `V${low.top + low.height * 0.6}H${(low.left - 1).toFixed(1)}`;
      }
      d = `${before}C${x1.toFixed(1)} ${(y1 + y2) / 2} ${x2.toFixed(1)} ${(y1 + y2) / 2} ${x2.toFixed(1)} ${y2}${after}`;
    }
    const why = this.moods.get(wait.to);
    path.setAttribute("d", d);
    path.setAttribute("class", `wait ${why === "slow" || why === "stuck" ? why : ""}`);
    path.style.strokeWidth = (0.8 + 2.4 * wait.share).toFixed(2);
    path.style.strokeOpacity = (0.25 + 0.65 * wait.share).toFixed(2);
    path.dataset.wait = `${wait.from} > ${wait.to}`;
  }
}
