"use strict";
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
table.tHead.querySelectorAll("button").forEach((button) => {
  button.addEventListener("click", () => sortBy(table, button.closest("th").cellIndex));
});
document.getElementById("search")?.addEventListener("input", (event) => search(table, event.target.value));
