"use strict";
const charts = JSON.parse(document.getElementById("chart-data").textContent);

// `patch` changes the chart that Vega-Lite compiled.
function draw(place, spec, patch = (vega) => vega) {
  spec.config.font = getComputedStyle(document.body).fontFamily;
  // The interpreter evaluates Vega's expressions without eval, so the page's security policy can forbid it.
  const options = {
    ast: true,
    renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
    tooltip: { theme: "custom" },
    patch,
  };
  return vegaEmbed(place, spec, options).catch((error) => {
    place.textContent = `This plot could not be drawn: ${error.message}`;
  });
}
