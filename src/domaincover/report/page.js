function rowsOf(columns) {
  const names = Object.keys(columns);
  const valueAt = (column, i) => (column.codes ? column.texts[column.codes[i]] : column[i]);
  return columns.set_size.map((_, i) =>
    Object.fromEntries(names.map((name) => [name, valueAt(columns[name], i)])));
}

charts.forEach(({ spec, points, comparison }, i) => {
  spec.datasets = { ...spec.datasets, points: rowsOf(points) };
  draw(document.getElementById(`chart-${i + 1}`), spec);
  Object.entries(comparison).forEach(([kind, chart]) => draw(document.getElementById(`${kind}-${i + 1}`), chart));
});
