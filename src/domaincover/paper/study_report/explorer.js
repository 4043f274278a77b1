// The domain explorer: all domains of one method, data set, target and split, as a table to sort, search and filter.
const FEW_LABELS = 6;
const MOST_ROWS = 300;
const explorer = Object.fromEntries(["dataset", "method", "target", "split", "seed", "search", "below", "count", "table", "more"]
  .map((name) => [name, document.getElementById(`explore-${name}`)]));
const order = { column: "min_recall", descending: false };
let showAll = false;

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Fills a choice; what was chosen stays chosen where it is still there, else the usual one is.
function offer(select, options, usual) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => {
    const option = element("option", "", text);
    option.value = value;
    return option;
  }));
  const values = options.map(([value]) => String(value));
  select.value = values.includes(before) ? before : values.includes(String(usual)) ? usual : values[0];
}

const different = (values) => [...new Set(values)];

function exploredData() {
  return charts.datasets[explorer.dataset.value];
}

function offerChoices() {
  const data = exploredData();
  const methods = different(data.rows.map((row) => row.method));
  offer(explorer.method, methods.map((method) => [method, styleOf[method].label]), "set-cover");
  const ofMethod = data.rows.filter((row) => row.method === explorer.method.value);
  const targets = different(ofMethod.map((row) => row.target)).sort((a, b) => a - b);
  offer(explorer.target, targets.map((target) => [target, target]), data.targets[data.main]);
  const ofTarget = ofMethod.filter((row) => row.target === Number(explorer.target.value));
  const splits = different(ofTarget.map((row) => charts.split_names.indexOf(row.split))).sort((a, b) => a - b);
  offer(explorer.split, splits.map((split) => [split, charts.splits[split]]), 0);
  const seeds = different(ofTarget.map((row) => row.seed));
  offer(explorer.seed, [["", `all ${seeds.length}`], ...seeds.map((seed) => [seed, seed])], "");
}

function chosenDomains() {
  return exploredData().rows.filter((row) => row.method === explorer.method.value
    && row.target === Number(explorer.target.value)
    && row.split === charts.split_names[Number(explorer.split.value)]
    && (explorer.seed.value === "" || String(row.seed) === explorer.seed.value));
}

// Columns: what to sort by, and how to fill a cell.
function columnsOf(data, low) {
  const target = Number(explorer.target.value);
  // What is just below the target is not written as if it were at target.
  const recall = ({ value, below }) => {
    if (value === null) return element("td", "", "absent");
    const hidden = below && Number(value.toFixed(3)) >= target;
    return element("td", below ? "below" : "", value.toFixed(hidden ? 4 : 3));
  };
  const few = data.labels.length <= FEW_LABELS;
  return [
    { name: "domain", head: "Domain", text: true, of: (row) => row.domain, cell: (row) => {
      const head = element("th", "text name", row.domain);
      head.scope = "row";
      return head;
    } },
    { name: "seed", head: "Seed", of: (row) => row.seed, cell: (row) => element("td", "", row.seed) },
    { name: "n", head: "Examples", of: (row) => row.n, cell: (row) => element("td", "", row.n.toLocaleString("en")) },
    { name: "min_recall", head: "Min recall", of: (row) => row.min_recall,
      cell: (row) => recall({ value: row.min_recall, below: row.below }) },
    { name: "track", head: "Recall by label", unsorted: true, scale: [low.toFixed(2), "1"],
      cell: (row) => trackOf(row, data.labels, low, target) },
    ...(few ? data.labels.map((label, i) => ({
      name: `label-${i}`, head: `Recall of ${label}`, of: (row) => row.recalls[i].value, cell: (row) => recall(row.recalls[i]),
    })) : [{ name: "lowest", head: "Lowest labels", text: true, of: (row) => lowestLabels(row, data.labels)[0] ?? "",
      cell: (row) => element("td", "text", lowestLabels(row, data.labels).join(", ")) }]),
    { name: "set_size", head: "Set size", of: (row) => row.set_size,
      cell: (row) => element("td", "", row.set_size === null ? "–" : row.set_size.toFixed(2)) },
  ];
}

function lowestLabels(row, labels) {
  return row.recalls.map(({ value }, i) => [labels[i], value]).filter(([, value]) => value !== null)
    .sort(([, a], [, b]) => a - b).slice(0, 3).map(([label, value]) => `${label} ${value.toFixed(2)}`);
}

function trackOf(row, labels, low, target) {
  const cell = element("td", "track-cell");
  const track = element("span", "track");
  const place = (value) => `${(100 * (value - low)) / (1 - low)}%`;
  const line = element("span", "line");
  line.style.left = place(target);
  track.append(line);
  row.recalls.filter(({ value }) => value !== null).forEach(({ value, below }) => {
    const mark = element("span", `dot${below ? " miss" : ""}`);
    mark.style.left = place(value);
    track.append(mark);
  });
  track.setAttribute("aria-hidden", "true");
  cell.title = `${row.domain}, seed ${row.seed}\n${recallsInWords(labels, row.recalls)}`;
  cell.append(track);
  return cell;
}

function headOf(column) {
  const head = element("th", `${column.text ? "text" : ""}${column.unsorted ? " track-head" : ""}`);
  head.scope = "col";
  if (column.unsorted) {
    const scale = element("span", "scale");
    scale.setAttribute("aria-hidden", "true");
    scale.append(...column.scale.map((end) => element("span", "", end)));
    head.append(element("span", "", column.head), scale);
    return head;
  }
  const button = element("button", "", column.head);
  button.type = "button";
  button.dataset.column = column.name;
  button.addEventListener("click", () => {
    order.descending = order.column === column.name && !order.descending;
    order.column = column.name;
    explore();
    explorer.table.tHead.querySelector(`[data-column="${column.name}"]`).focus();
  });
  if (order.column === column.name) head.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
  head.append(button);
  return head;
}

function sorted(rows, column) {
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  const keyed = rows.map((row) => [column.of(row), row]);
  // What is not there stays last in both directions.
  keyed.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : compare(a, b) * (order.descending ? -1 : 1)));
  return keyed.map(([, row]) => row);
}

function explore() {
  const data = exploredData();
  const all = chosenDomains();
  const wanted = explorer.search.value.trim().toLocaleLowerCase();
  const found = all.filter((row) => (!explorer.below.checked || row.below) && row.domain.toLocaleLowerCase().includes(wanted));
  const values = all.flatMap((row) => row.recalls.map(({ value }) => value ?? 1));
  const low = Math.max(0, Math.floor(20 * values.reduce((a, b) => Math.min(a, b), Number(explorer.target.value) - 0.01)) / 20);
  const columns = columnsOf(data, low);
  const column = columns.find(({ name }) => name === order.column) ?? columns[3];
  order.column = column.name;
  const rows = sorted(found, column);
  const shown = showAll ? rows : rows.slice(0, MOST_ROWS);
  explorer.table.tHead.rows[0].replaceChildren(...columns.map(headOf));
  explorer.table.tBodies[0].replaceChildren(...shown.map((row) => {
    const line = element("tr");
    line.append(...columns.map((one) => one.cell(row)));
    return line;
  }));
  const nBelow = all.filter((row) => row.below).length;
  const listed = found.length === all.length ? "" : ` ${found.length} listed.`;
  const seeds = new Set(all.map((row) => row.seed)).size;
  explorer.count.textContent = `${nBelow} of ${all.length} domains below ${explorer.target.value}`
    + `${seeds > 1 ? `, ${seeds} seeds together` : ""}.${listed}`;
  explorer.more.hidden = shown.length === rows.length;
  explorer.more.textContent = `Show all ${rows.length} domains`;
}

offer(explorer.dataset, charts.datasets.map((data, i) => [i, data.label]), 0);
const exploreForm = document.getElementById("explore");
exploreForm.addEventListener("submit", (event) => event.preventDefault());
["dataset", "method", "target", "split", "seed"].forEach((name) => explorer[name].addEventListener("change", () => {
  showAll = false;
  offerChoices();
  explore();
}));
explorer.search.addEventListener("input", explore);
explorer.below.addEventListener("change", explore);
explorer.more.addEventListener("click", () => {
  showAll = true;
  explore();
});
let explored = false;
function startExploring() {
  if (explored) return;
  explored = true;
  offerChoices();
  explore();
}
unpackedAll.then(() => {
  new IntersectionObserver((entries, watcher) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watcher.disconnect();
    startExploring();
  }, { rootMargin: "600px" }).observe(explorer.table);
  window.addEventListener("beforeprint", startExploring);
});
