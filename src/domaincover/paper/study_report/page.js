const ABSENT = 65535;
const UNIT = 1e-4;
const styleOf = Object.fromEntries(charts.methods.map((method, code) => [method, charts.styles[code]]));

// Unpacks a data set's single domains: `runs` have codes, a place in each column of `values`, and a roster.
async function unpack(data) {
  const packed = Uint8Array.from(atob(data.values), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const half = bytes.length / 2; // low bytes, then high ones
  const values = Uint16Array.from({ length: half }, (_, i) => bytes[i] + 256 * bytes[half + i]);
  let start = 0;
  const runs = data.runs.map(([method, target, split, seed, roster]) => {
    const run = { method: charts.methods[method], target, split, seed, roster: data.rosters[roster], start };
    start += run.roster.domains.length;
    return run;
  });
  data.unpacked = { runs, values, nDomains: start };
}

const unpackedAll = Promise.all(charts.datasets.map(unpack));

// The rows of a table that is packed as columns.
function rowsOf(columns) {
  const names = Object.keys(columns);
  return (columns[names[0]] ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

charts.datasets.forEach((data) => {
  data.by_target.forEach((own) => {
    ["crosses", "shares", "boxes", "outliers"].forEach((name) => { own[name] = rowsOf(own[name]); });
  });
  if (data.curves) data.curves.rows = rowsOf(data.curves.rows);
  if (data.training) {
    const { cells, steps, ...others } = data.training;
    data.training = { steps: rowsOf(steps).map((step) => ({ ...step, cell: cells })), ...others };
  }
});

function domainsOf(data, keep) {
  const { runs, values, nDomains } = data.unpacked;
  const number = (whole, unit) => (whole === ABSENT ? null : whole * unit);
  return runs.filter(keep).flatMap(({ method, seed, target, roster, start }) => roster.domains.map((domain, i) => {
    const [size, ...recalls] = Array.from({ length: 1 + data.labels.length }, (_, column) => values[column * nDomains + start + i]);
    const least = Math.min(...recalls); // what is absent is larger
    return {
      label: styleOf[method].label,
      domain: data.domains[domain],
      seed,
      n: typeof roster.n === "number" ? roster.n : roster.n[i],
      min_recall: number(least, UNIT),
      set_size: number(size, data.size_unit),
      below: least < data.least[target],
      recalls: recalls.map((whole) => ({ value: number(whole, UNIT), below: whole < data.least[target] })),
    };
  }));
}

function recallsInWords(labels, recalls) {
  const shown = recalls.map(({ value }, i) => [labels[i], value]).sort(([, a], [, b]) => (a ?? 2) - (b ?? 2));
  const lines = shown.slice(0, 12).map(([label, value]) => `${label}: ${value === null ? "absent" : value.toFixed(3)}`);
  return [...lines, ...(shown.length > 12 ? [`and ${shown.length - 12} more labels`] : [])].join("\n");
}

// The part of an axis that holds these values, with some room.
function around(values, leastSpan, low = 0, high = Infinity) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (!known.length) known.push(1);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(0.08 * (most - least), (leastSpan - (most - least)) / 2, 0.08 * leastSpan);
  return [Math.max(least - room, low), Math.min(most + room, high)];
}

// The ends in sight of "recall = set size / labels", the line of sets drawn by lot.
function randomLine(nLabels, size, recall) {
  const ends = [Math.max(size[0], nLabels * recall[0]), Math.min(size[1], nLabels * recall[1])];
  return ends[0] < ends[1] ? ends.map((end) => ({ set_size: end, min_recall: end / nLabels })) : [];
}

// Replaces "@name" and ["@name"] in a template by the value of that name.
function filled(node, values) {
  if (typeof node === "string") return node.startsWith("@") ? values[node.slice(1)] : node;
  if (Array.isArray(node)) {
    const alone = node.length === 1 && typeof node[0] === "string" && node[0].startsWith("@");
    return alone ? values[node[0].slice(1)] : node.map((item) => filled(item, values));
  }
  if (node === null || typeof node !== "object") return node;
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, filled(value, values)]));
}

function chosenIn(data, number) {
  const form = document.querySelector(`form.choices[data-number="${number}"]`);
  const chosen = (name, usual) => {
    const box = form.querySelector(`[name="${name}-${number + 1}"]:checked`);
    return box ? Number(box.value) : usual;
  };
  const [target, group] = [chosen("target", data.main), chosen("group", 0)];
  return {
    target,
    group: data.groups[group],
    frame: data.by_target[target].frames[group],
    split: chosen("split", data.splits[0]),
    points: form.querySelector("[type=checkbox]").checked,
  };
}

// What a plot of one of the paper's figures shows; nothing of it can be chosen.
function exhibited(data, place) {
  const { methods, target, frames } = charts.exhibits[place.dataset.exhibit];
  return {
    target: data.targets.indexOf(target),
    group: { methods: charts.methods.filter((method) => methods.includes(method)) },
    frame: frames[place.dataset.number],
    split: place.dataset.split ? Number(place.dataset.split) : data.splits[0],
    points: false,
  };
}

const SHORT = { x: "Mean set size", cross: "Min recall", curves: "Min recall", coverage: "Share at target" };

// A plot of a figure of several: lower, with short titles, and without a legend, which the figure has once.
function asPanel(spec, kind) {
  if (!(kind in SHORT)) return spec;
  spec.height = 230;
  spec.layer.forEach(({ encoding }) => {
    Object.values(encoding).filter((channel) => channel.legend).forEach((channel) => { channel.legend = null; });
    if (encoding.x?.title) encoding.x.title = SHORT.x;
    if (encoding.y?.title) encoding.y.title = SHORT[kind];
  });
  return spec;
}

// What every template needs: the methods of the choice that have rows, in order, with their looks.
function looks(rows, group, width) {
  const present = new Set(rows.map((row) => row.method));
  const methods = group.methods.filter((method) => present.has(method));
  const styles = methods.map((method) => styleOf[method]);
  const labels = styles.map((style) => style.label);
  const longest = Math.max(...labels.map((label) => label.length));
  const lines = JSON.stringify(styles.map((style) => style.lines));
  const names = `${lines}[indexof(${JSON.stringify(labels)}, datum.value)]`;
  return {
    kept: rows.filter((row) => methods.includes(row.method)).map((row) => ({ ...row, label: styleOf[row.method].label })),
    values: {
      labels,
      colors: styles.map((style) => style.color),
      shapes: styles.map((style) => style.shape),
      names,
      is_long: `length(${names}) > 1`,
      // an expression, so that a window that becomes narrower cuts no name
      columns: `max(1, min(3, floor((containerSize()[0] - 60) / ${30 + 6.3 * longest})))`,
    },
  };
}

const makers = {
  cross(data, choice, width) {
    const own = data.by_target[choice.target];
    const { group, frame } = choice;
    const { kept, values } = looks(own.crosses.filter((row) => row.split === charts.split_names[choice.split]), group, width);
    const points = !choice.points ? [] : domainsOf(data, (run) => run.target === choice.target
      && run.split === choice.split && group.methods.includes(run.method));
    points.forEach((point) => { point.recalls = recallsInWords(data.labels, point.recalls); });
    const wide = (axis, name, ...ends) => (points.length
      ? around([...frame[axis], ...points.map((point) => point[name])], 0, ...ends) : frame[axis]);
    const [size, recall] = [wide("size", "set_size"), wide("recall", "min_recall", 0, 1)];
    const spec = filled(charts.templates.cross, { ...values, size, recall });
    spec.description = `Set size against min recall: ${data.label}`;
    spec.datasets = {
      crosses: kept, points, target: [frame.target], random_line: randomLine(data.n_labels, size, recall), random_name: frame.random_name,
      target_below: frame.above ? [] : [frame.target], target_above: frame.above ? [frame.target] : [],
    };
    return { spec, caption: `Min recall against mean set size. ${frame.note}` };
  },
  share(data, choice) {
    const { kept, values } = looks(data.by_target[choice.target].shares, choice.group);
    const title = `Share of unseen domains at target ${data.targets[choice.target]}`;
    const spec = filled(charts.templates.share, { ...values, title });
    spec.height = 30 * values.labels.length;
    spec.datasets = { rows: kept };
    spec.description = inWords(title, data, kept.map((row) => `${row.label} ${row.text}`));
    return { spec, caption: data.by_target[choice.target].captions.share };
  },
  "min-recall"(data, choice) {
    const own = data.by_target[choice.target];
    const { kept, values } = looks(own.boxes, choice.group);
    const outliers = looks(own.outliers, choice.group).kept;
    const target = data.targets[choice.target];
    const recall = around(
      [...kept.flatMap((row) => [row.low, row.high]), ...outliers.map((row) => row.min_recall), target], 0.05, 0, 1);
    const named = { recall, targets: [target], target_name: `'target ${target}'` };
    const spec = filled(charts.templates["min-recall"], { ...values, ...named });
    spec.height = 30 * values.labels.length;
    spec.datasets = { rows: kept, outliers, target: [{ target }] };
    spec.description = inWords("Median min recall of unseen domains", data, kept.map((row) => `${row.label} ${row.said}`));
    return { spec, caption: own.captions["min-recall"] };
  },
  curves(data, choice, width) {
    const { kept, values } = looks(data.curves.rows, choice.isPanel ? choice.group : { methods: charts.methods }, width);
    const spec = filled(charts.templates.curves, { ...values, size: data.curves.size, recall: data.curves.recall });
    spec.datasets = { rows: kept, target: data.curves.targets.map((target) => ({ target })) };
    spec.description = inWords("Min recall against set size by target recall", data, kept.map((row) =>
      `${row.label} at ${row.target}: ${row.min_recall} with size ${row.set_size}`));
    return { spec };
  },
  coverage(data, choice, width) {
    const { kept, values } = looks(data.by_target[choice.target].shares, choice.group, width);
    const title = `Share of unseen domains at target ${data.targets[choice.target]}`;
    const size = around(kept.flatMap((row) => [row.set_size, row.size_low, row.size_high]), 0.1);
    const recall = around(kept.flatMap((row) => [row.share, row.low, row.high]), 0.05, 0, 1);
    const spec = filled(charts.templates.coverage, { ...values, title, size, recall });
    spec.datasets = { rows: kept };
    spec.description = inWords(`${title} against set size`, data, kept.map((row) =>
      `${row.label} ${row.text} with size ${row.size_text}`));
    return { spec, caption: data.by_target[choice.target].captions.coverage };
  },
};

["training-recall", "training-size", "training-multipliers"].forEach((kind) => {
  makers[kind] = (data) => ({ spec: { ...filled(charts.templates[kind], {}), datasets: data.training } });
});

function inWords(title, data, numbers) {
  return `${title}, ${data.label}: ${numbers.join("; ")}`;
}

// Legends show methods as plots do, hollow where they are not the paper's; Vega-Lite fills all symbols.
function withHollowLegends(vega) {
  if (!vega.legends) return vega;
  const [domain, range] = [charts.styles.map((style) => style.label), charts.styles.map((style) => (style.ours ? 0 : 1))];
  vega.scales.push({ name: "filled", type: "ordinal", domain, range }); // a name may be anything, and is no expression
  const fillOpacity = { scale: "filled", field: "value" };
  vega.legends.forEach((legend) => {
    const symbols = legend.encode?.symbols ?? {};
    legend.encode = { ...legend.encode, symbols: { ...symbols, update: { ...symbols.update, fillOpacity } } };
  });
  return vega;
}

const drawn = new Map(); // place of a chart: the promise of its view

function drawPlace(place) {
  if (!place.clientWidth) return; // in a part that is closed
  const { kind } = place.dataset;
  const number = Number(place.dataset.number);
  const data = charts.datasets[number];
  const isPanel = "exhibit" in place.dataset;
  const { spec, caption } = kind === "theory" ? { spec: charts.theory }
    : makers[kind](data, isPanel ? { ...exhibited(data, place), isPanel } : chosenIn(data, number), place.clientWidth);
  if (isPanel) asPanel(spec, kind);
  else if (caption) place.nextElementSibling.textContent = `${data.mark} ${caption}`.trim();
  const before = drawn.get(place);
  if (before) place.style.minHeight = `${place.offsetHeight}px`; // the page does not jump
  const now = Promise.resolve(before).then((view) => {
    view?.finalize();
    return draw(place, spec, withHollowLegends);
  }).then((view) => {
    place.style.minHeight = "";
    return view;
  });
  drawn.set(place, now);
}

const places = [...document.querySelectorAll(".chart[data-kind]")];
const near = new IntersectionObserver((entries) => {
  entries.filter((entry) => entry.isIntersecting && !drawn.has(entry.target)).forEach((entry) => drawPlace(entry.target));
}, { rootMargin: "400px" });
places.forEach((place) => near.observe(place));
window.addEventListener("beforeprint", () => places.filter((place) => !drawn.has(place)).forEach(drawPlace));
// With "?draw=all" in the address nothing waits to be scrolled to: for pictures of the whole page.
if (location.search.includes("draw=all")) addEventListener("load", () => dispatchEvent(new Event("beforeprint")));

document.querySelectorAll("form.choices").forEach((form) => {
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", ({ target }) => {
    const only = /^(split|points)-/.test(target.name) ? ["cross"] : ["cross", "share", "min-recall", "coverage"];
    const changed = places.filter((place) => !("exhibit" in place.dataset) && place.dataset.number === form.dataset.number
      && only.includes(place.dataset.kind) && drawn.has(place));
    unpackedAll.then(() => changed.forEach(drawPlace));
  });
});
