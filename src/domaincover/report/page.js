"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("chart-data").textContent);

  function rowsOf(columns) {
    const names = Object.keys(columns);
    const valueAt = (column, i) => (column.codes ? column.texts[column.codes[i]] : column[i]);
    return columns.set_size.map((_, i) =>
      Object.fromEntries(names.map((name) => [name, valueAt(columns[name], i)])));
  }

  // The interpreter evaluates Vega's expressions without eval, so the page's security policy can forbid it.
  const options = {
    ast: true,
    renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
    tooltip: { theme: "custom" },
  };

  charts.forEach(({ spec, points }, i) => {
    const place = document.getElementById(`chart-${i + 1}`);
    spec.config.font = getComputedStyle(document.body).fontFamily;
    spec.datasets = { ...spec.datasets, points: rowsOf(points) };
    vegaEmbed(place, spec, options).catch((error) => {
      place.textContent = `This plot could not be drawn: ${error.message}`;
    });
  });
})();
