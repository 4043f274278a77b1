// A chart of two panels cannot fill its place by itself: give names, recalls and sizes their share of the width.
function fitted(spec, width) {
  const names = spec.hconcat[0].layer[0].encoding.y.scale.domain;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const longest = Math.max(...names.map((name) => pen.measureText(name).width));
  const forNames = Math.min(longest + 14, width * (width < 600 ? 0.3 : 0.24));
  const forPlots = width - forNames - 48;
  const copy = structuredClone(spec);
  copy.config.axisY.labelLimit = forNames - 12;
  copy.config.legend.columns = Math.max(1, Math.floor(width / 190));
  copy.hconcat[0].width = Math.round(forPlots * 0.74);
  copy.hconcat[1].width = Math.round(forPlots * 0.26);
  return copy;
}

function drawDomains() {
  const place = document.getElementById("chart-domains");
  const width = place.clientWidth;
  return draw(place, fitted(charts.domains, width)).then((drawn) => {
    const watcher = new ResizeObserver(() => {
      if (Math.abs(place.clientWidth - width) < 20) return;
      watcher.disconnect();
      drawn.finalize();
      drawDomains();
    });
    if (drawn) watcher.observe(place);
  });
}

function sortBy(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const descending = heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
  const isText = heads[column].classList.contains("text");
  const valueOf = (row) => {
    const { dataset, textContent } = row.cells[column];
    return isText ? textContent : dataset.value === undefined ? null : Number(dataset.value);
  };
  const compare = (a, b) => (isText ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row), row]);
  // What is not there stays last in both directions.
  rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : compare(a, b) * (descending ? -1 : 1)));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

function search(table, text) {
  const wanted = text.trim().toLocaleLowerCase();
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row) => { row.hidden = !row.cells[0].textContent.toLocaleLowerCase().includes(wanted); });
  const shown = rows.filter((row) => !row.hidden).length;
  document.getElementById("found").textContent = wanted ? `${shown} of ${rows.length} domains` : "";
}

const table = document.getElementById("domain-table");
table.tHead.querySelectorAll("button").forEach((button, column) => {
  button.addEventListener("click", () => sortBy(table, column));
});
document.getElementById("search")?.addEventListener("input", (event) => search(table, event.target.value));
drawDomains();
