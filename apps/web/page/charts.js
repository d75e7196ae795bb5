// SPDX-License-Identifier: BSD-3-Clause
// Curves over training time. Axes move in steps, so that a curve grows instead of shrinking every second.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
/** An element of SVG with attributes. */
function draw(parent, name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

/** The smallest of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten that is not below. */
function roundUp(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find(step => step * unit >= value * 0.9999) * unit;
}

/** The end of a time axis and the number of its parts, so that each part is a whole number of a unit. */
function timeAxis(seconds) {
  const day = 86400, unit = seconds <= 60 ? 1 : seconds <= 3600 ? 60 : seconds <= day ? 3600 : day;
  const ends = unit === 1 ? null : {60: [1, 1.5, 2, 3, 4, 5, 8, 10, 15, 20, 30, 40, 60], 3600: [1, 1.5, 2, 3, 4, 6, 8, 12, 18, 24]}[unit];
  const end = ends ? ends.find(step => step * unit >= seconds) : roundUp(seconds / unit);
  const first = end / 10 ** Math.floor(Math.log10(end));
  return {end: end * unit, parts: [1.5, 3, 6, 1.8].some(three => Math.abs(three - first) < 1e-6) ? 3 : Math.abs(first - 5) < 1e-6 || (Math.abs(first - 1) < 1e-6 && unit < 3600) ? 5 : 4};
}

/** For axes and sentences. */
function timeText(seconds) {
  const whole = Math.round(seconds);
  if (seconds < 10 && seconds !== whole) return `${+seconds.toFixed(2)} s`;
  if (whole < 120) return `${whole} s`;
  const two = number => String(number).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)} min`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)} h`;
}

function lossText(value) {
  if (value === null || value === undefined) return "–";
  return value === 0 || Math.abs(value) >= 0.001 ? value.toFixed(4) : value.toExponential(1);
}
const shareText = value => value === null || value === undefined ? "–" : value.toFixed(4);

/** "16:05" or "1:02:03": digits of constant width. */
function clockText(seconds) {
  const two = number => String(number).padStart(2, "0"), whole = Math.floor(seconds);
  const minutes = Math.floor(whole / 60) % 60;
  return whole < 3600 ? `${minutes}:${two(whole % 60)}` : `${Math.floor(whole / 3600)}:${two(minutes)}:${two(whole % 60)}`;
}

/** At most `most` points, or a few more: neighbours become their mean and range. All except the last stand for equally many rounds. */
function smoothed(points, most) {
  const group = Math.ceil(points.length / most), out = [];
  for (let i = 0; i < points.length; i += group) {
    const some = points.slice(i, i + group);
    out.push([some[0][0], some.reduce((sum, [, mean]) => sum + mean, 0) / some.length, Math.min(...some.map(([, , low]) => low)), Math.max(...some.map(([, , , high]) => high))]);
  }
  return out;
}

/** Ticks at 1, 2, 5 times powers of ten; bounds that hold all values. */
function logScale(values) {
  const steps = [];
  for (let power = -12; power < 13; ++power) for (const step of [1, 2, 5]) steps.push(step * 10 ** power);
  const low = Math.min(...values), high = Math.max(...values);
  const from = steps.findLastIndex(step => step <= low), to = steps.findIndex(step => step >= high);
  let ticks = steps.slice(Math.max(from, 0), Math.max(to, from + 1) + 1);
  if (ticks.length > 8) ticks = ticks.filter((tick, i) => i === 0 || i === ticks.length - 1 || Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-6);
  const a = Math.log(ticks[0]), b = Math.log(ticks.at(-1));
  return {ticks, at: value => (Math.log(Math.max(value, ticks[0])) - a) / (b - a), text: tick => tick >= 0.001 ? String(+tick.toPrecision(1)) : tick.toExponential(0)};
}

/** From a tenth below the smallest share to 1. */
function shareScale(values) {
  const low = Math.max(0, Math.min(Math.floor(Math.min(...values) * 10) / 10, 0.9));
  const step = 1 - low > 0.5 ? 0.2 : 1 - low > 0.21 ? 0.1 : 1 - low > 0.11 ? 0.05 : 0.02;
  const ticks = [];
  for (let tick = 1; tick > low - 1e-9; tick -= step) ticks.unshift(tick);
  return {ticks, at: value => (value - low) / (1 - low), text: tick => tick.toFixed(step < 0.1 ? 2 : 1)};
}

/**
 * A chart in `section`. `series`: {key, label, style, dots, text}; what `show` is given has, by key, points [[x, y], ...], sorted,
 * and perhaps `ranges` [[x, low, high], ...] and a `goal`. The legend tells the last values, or those under the pointer.
 */
class Chart {
  constructor(section, series, scaleOf, empty) {
    this.series = series;
    this.scaleOf = scaleOf;
    this.empty = empty;
    this.place = section.querySelector(".chart");
    this.svg = draw(this.place, "svg", {role: "img", width: "100%", height: "100%"});
    this.values = {};
    for (const one of series) {
      const item = document.createElement("li");
      const swatch = draw(item, "svg", {viewBox: "0 0 22 10", "aria-hidden": "true"});
      if (one.range) draw(swatch, "rect", {class: "range", width: 22, height: 10});
      draw(swatch, "path", {class: one.style, d: "M0 5H22"});
      if (one.dots) draw(swatch, "circle", {class: "point", cx: 11, cy: 5, r: 3.5});
      item.append(one.label + " ");
      this.values[one.key] = document.createElement("b");
      item.append(this.values[one.key]);
      section.querySelector(".legend").append(item);
    }
    this.name = section.querySelector("h2").textContent;
    this.data = {};
    new ResizeObserver(() => this.paint()).observe(this.place);
    this.svg.addEventListener("pointermove", event => this.point(event.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener("pointerleave", () => this.point(null));
  }

  show(data) {
    this.data = data;
    this.paint();
  }

  paint() {
    const width = this.place.clientWidth, height = this.place.clientHeight;
    this.svg.replaceChildren();
    const all = this.series.flatMap(one => this.data[one.key] ?? []).filter(([, y]) => y !== null);
    const values = all.map(([, y]) => y).filter(y => this.scaleOf !== logScale || y > 0);
    this.at = this.pixel ?? null;
    if (!values.length || width === 0) {
      this.x = null;
      draw(this.svg, "text", {class: "empty", x: width / 2, y: height / 2}, this.empty);
      return this.legend(null);
    }
    if (this.data.goal) values.push(this.data.goal);
    const frame = {left: 40, right: width - 8, top: 8, bottom: height - 22};
    const {end, parts} = timeAxis(Math.max(this.data.until ?? 0, ...all.map(([x]) => x), 1e-3)), scale = this.scaleOf(values);
    this.x = seconds => frame.left + (frame.right - frame.left) * seconds / end;
    this.seconds = pixel => (pixel - frame.left) / (frame.right - frame.left) * end;
    const y = value => frame.bottom - (frame.bottom - frame.top) * scale.at(value);
    for (const tick of scale.ticks) {
      draw(this.svg, "line", {class: "grid", x1: frame.left, x2: frame.right, y1: y(tick), y2: y(tick)});
      draw(this.svg, "text", {x: frame.left - 8, y: y(tick) + 4, "text-anchor": "end"}, scale.text(tick));
    }
    for (let i = 0; i <= parts; ++i)
      draw(this.svg, "text", {x: this.x(end * i / parts), y: height - 4, "text-anchor": i === 0 ? "start" : i === parts ? "end" : "middle"}, timeText(end * i / parts));
    if (this.data.goal) draw(this.svg, "line", {class: "goal", x1: frame.left, x2: frame.right, y1: y(this.data.goal), y2: y(this.data.goal)});
    const inside = value => Math.min(Math.max(value, frame.top), frame.bottom);
    const path = points => points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    if (this.data.ranges?.length > 1) {
      const upper = this.data.ranges.map(([x, , high]) => [this.x(x), inside(y(high))]);
      const lower = this.data.ranges.map(([x, low]) => [this.x(x), inside(y(low))]).reverse();
      draw(this.svg, "path", {class: "range", d: path(upper.concat(lower)) + "Z"});
    }
    for (const one of this.series) {
      const points = (this.data[one.key] ?? []).filter(([, value]) => value !== null).map(([x, value]) => [this.x(x), inside(y(value))]);
      draw(this.svg, "path", {class: one.style, d: path(points), "data-series": one.key, "data-points": points.length});
      if (one.dots) for (const [px, py] of points.length <= 40 ? points : points.slice(-1)) draw(this.svg, "circle", {class: "point", cx: px, cy: py, r: 3.5});
    }
    this.cursor = draw(this.svg, "line", {class: "cursor", y1: frame.top, y2: frame.bottom, visibility: "hidden"});
    this.point(this.pixel ?? null);
  }

  point(pixel) {
    this.pixel = pixel;
    if (!this.x) return;
    const seconds = pixel === null ? null : Math.max(0, this.seconds(pixel));
    this.cursor.setAttribute("visibility", pixel === null ? "hidden" : "visible");
    if (pixel !== null) for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(seconds));
    this.legend(seconds);
  }

  /** The values at this time, or the last. */
  legend(seconds) {
    const said = [];
    for (const one of this.series) {
      const points = this.data[one.key] ?? [];
      const at = seconds === null ? points.at(-1) : points.findLast(([x]) => x <= seconds);
      const text = one.text(at?.[1]);
      if (this.values[one.key].textContent !== text) this.values[one.key].textContent = text;
      if (at) said.push(`${one.label} ${text}`);
    }
    if (seconds === null) this.svg.setAttribute("aria-label", said.length ? `${this.name}: ${said.join(", ")}` : `${this.name}: ${this.empty}`);
  }
}
