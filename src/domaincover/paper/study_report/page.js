const styleOf = Object.fromEntries(charts.styles.map((style) => [style.method, style]));

// The rows of a table that is packed as columns.
function rowsOf(columns) {
  const names = Object.keys(columns);
  return (columns[names[0]] ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

// Unpacks a data set's single domains.
async function unpack(data) {
  const bytes = Uint8Array.from(atob(data.domains), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { names, labels, rows, recalls } = await new Response(stream).json();
  data.labels = labels;
  data.rows = rowsOf(rows).map((row, i) => ({
    ...row,
    domain: names[row.domain],
    target: row.target_recall,
    label: styleOf[row.method].label,
    recalls: recalls.map((column) => ({ value: column[i], below: column[i] !== null && column[i] < row.target_recall })),
  }));
  data.rows.forEach((row) => {
    const known = row.recalls.map(({ value }) => value).filter((value) => value !== null);
    row.min_recall = known.length ? Math.min(...known) : null;
    row.below = row.recalls.some(({ below }) => below);
  });
}

const unpackedAll = Promise.all(charts.datasets.map(unpack));

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

// Replaces "@name" in a template by the value of that name.
function filled(node, values) {
  if (typeof node === "string") return node.startsWith("@") ? values[node.slice(1)] : node;
  if (Array.isArray(node)) return node.map((item) => filled(item, values));
  if (node === null || typeof node !== "object") return node;
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, filled(value, values)]));
}

function chosenIn(data, number) {
  const form = document.querySelector(`form.choices[data-number="${number}"]`);
  const chosen = (name, usual) => {
    const box = form.querySelector(`[name="${name}-${number + 1}"]:checked`);
    return box ? Number(box.value) : usual;
  };
  return {
    target: chosen("target", data.main),
    methods: data.groups[chosen("group", 0)].methods,
    split: charts.split_names[chosen("split", data.splits[0])],
    points: form.querySelector("[type=checkbox]").checked,
  };
}

// What a plot of one of the paper's figures shows; nothing of it can be chosen.
function exhibited(data, place) {
  const { methods, target } = charts.exhibits[place.dataset.exhibit];
  return {
    target: data.targets.indexOf(target),
    methods: charts.styles.map((style) => style.method).filter((method) => methods.includes(method)),
    split: charts.split_names[place.dataset.split ? Number(place.dataset.split) : data.splits[0]],
    splits: place.dataset.split ? charts.split_names : ["unseen"],
    points: false,
    isPanel: true,
  };
}

const kept = (rows, methods) => rows.filter((row) => methods.includes(row.method))
  .map((row) => ({ ...row, label: styleOf[row.method].label }));

// What every template needs: the looks of the methods that have rows, in order; a legend, but in a plot of several.
function looks(styles, isPanel) {
  const labels = styles.map((style) => style.label);
  const longest = Math.max(...labels.map((label) => label.length));
  const names = `${JSON.stringify(styles.map((style) => style.lines))}[indexof(${JSON.stringify(labels)}, datum.value)]`;
  // an expression, so that a window that becomes narrower cuts no name
  const columns = { expr: `max(1, min(3, floor((containerSize()[0] - 60) / ${30 + 6.3 * longest})))` };
  return {
    labels,
    colors: styles.map((style) => style.color),
    fills: styles.map((style) => style.fill),
    shapes: styles.map((style) => style.shape),
    names,
    is_long: `length(${names}) > 1`,
    is_named: true,
    end: charts.end,
    legend: isPanel ? null : { orient: "bottom", columns },
  };
}

const inTurn = (rows, ...names) => names.flatMap((name) => rows.map((row) => row[name]));

// For each kind: the values of its template, its data, its rows' height if they are named, and its numbers in words.
const makers = {
  cross(data, choice) {
    const { methods, split, splits = charts.split_names } = choice;
    const target = data.targets[choice.target];
    const all = kept(data.by_target[choice.target].crosses, methods).filter((row) => splits.includes(row.split));
    const rows = all.filter((row) => row.split === split);
    const points = !choice.points ? [] : data.rows.filter((row) => row.target === target && row.split === split
      && methods.includes(row.method)).map((row) => ({ ...row, recalls: recallsInWords(data.labels, row.recalls) }));
    const shown = (name) => [...inTurn(all, name, `${name}_q25`, `${name}_q75`), ...inTurn(points, name)];
    const [size, recall] = [around(shown("set_size"), 0.1), around([...shown("min_recall"), target], 0.05, 0, 1)];
    return {
      values: { size, recall, targets: [target] },
      datasets: { rows, points, target: [{ target }], random_line: randomLine(data.n_labels, size, recall) },
      height: 380,
      said: ["Set size against min recall"],
    };
  },
  share(data, choice) {
    const rows = kept(data.by_target[choice.target].shares, choice.methods);
    const title = `Share of unseen domains at target ${data.targets[choice.target]}`;
    return { values: { x_title: title }, datasets: { rows }, said: [title, ...rows.map((row) => `${row.label} ${row.text}`)] };
  },
  "min-recall"(data, choice) {
    const own = data.by_target[choice.target];
    const [rows, outliers] = [kept(own.boxes, choice.methods), kept(own.outliers, choice.methods)];
    const target = data.targets[choice.target];
    const recall = around([...inTurn(rows, "low", "high"), ...inTurn(outliers, "min_recall"), target], 0.05, 0, 1);
    return {
      values: { recall, targets: [target], x_title: "Min recall of unseen domains" },
      datasets: { rows, outliers, target: [{ target }] },
      said: ["Median min recall of unseen domains", ...rows.map((row) => `${row.label} ${row.said}`)],
    };
  },
  curves(data, choice) {
    const { rows: all, ...values } = data.curves;
    const rows = kept(all, choice.isPanel ? choice.methods : charts.styles.map((style) => style.method));
    const numbers = rows.map((row) => `${row.label} at ${row.target}: ${row.min_recall} with size ${row.set_size}`);
    return {
      values,
      datasets: { rows, target: values.targets.map((target) => ({ target })) },
      height: 320,
      said: ["Min recall against set size by target recall", ...numbers],
    };
  },
  coverage(data, choice) {
    const rows = kept(data.by_target[choice.target].shares, choice.methods);
    const title = `Share of unseen domains at target ${data.targets[choice.target]}`;
    const size = around(inTurn(rows, "set_size", "size_low", "size_high"), 0.1);
    const recall = around(inTurn(rows, "share", "low", "high"), 0.05, 0, 1);
    const numbers = rows.map((row) => `${row.label} ${row.text} with size ${row.size_text}`);
    return { values: { size, recall, y_title: title }, datasets: { rows }, height: 320, said: [`${title} against set size`, ...numbers] };
  },
};

function chartOf(kind, data, choice) {
  const { values, datasets, height, said } = makers[kind](data, choice);
  const present = new Set(datasets.rows.map((row) => row.method));
  const styles = charts.styles.filter((style) => present.has(style.method));
  const [x_title, y_title] = charts.titles[kind];
  const short = { x_title, y_title };
  const named = { ...looks(styles, choice.isPanel), ...short, ...values, ...(choice.isPanel ? short : {}) };
  return {
    ...filled(charts.templates[kind], named),
    datasets,
    height: height ? (choice.isPanel ? 230 : height) : 30 * styles.length,
    description: `${said[0]}, ${data.label}: ${said.slice(1).join("; ")}`,
    // as much room above as the name of the target takes beside
    ...(kind === "share" ? { padding: { left: 5, right: 5, bottom: 5, top: 18 } } : {}),
  };
}

function trainingChart(kind, data) {
  const spec = filled(charts.templates[kind], { ...looks(charts.iterates, true), x_title: "Dual step" });
  return { ...spec, datasets: data.training, height: 200 };
}

const drawn = new Map(); // place of a chart: the promise of its view

function specOf(place, data) {
  const { kind, number, exhibit } = place.dataset;
  if (kind === "theory") return charts.theory;
  const spec = kind in makers
    ? chartOf(kind, data, exhibit === undefined ? chosenIn(data, Number(number)) : exhibited(data, place))
    : trainingChart(kind, data);
  return { ...spec, width: "container", config: { ...charts.config } };
}

function drawPlace(place) {
  if (!place.clientWidth) return; // in a part that is closed
  const { kind, number, exhibit } = place.dataset;
  const data = charts.datasets[Number(number)];
  const spec = specOf(place, data);
  if (exhibit === undefined && kind in makers) {
    const caption = data.by_target[chosenIn(data, Number(number)).target].captions[kind];
    if (caption) place.nextElementSibling.textContent = `${data.mark} ${caption}`.trim();
  }
  const before = drawn.get(place);
  if (before) place.style.minHeight = `${place.offsetHeight}px`; // the page does not jump
  const now = Promise.resolve(before).then((view) => {
    view?.finalize();
    return draw(place, spec);
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
