// Curves as text.

const HEIGHT = 16;
const WIDTH = 72;

/**
 * Draws curves over their steps, on a logarithmic axis from `low` to the largest value.
 * @param {{ mark: string, values: number[] }[]} curves drawn in this order, later ones over earlier ones
 * @param {number} low smaller values are drawn here
 * @returns {string}
 */
export function plot(curves, low) {
  const high = Math.max(...curves.flatMap(({ values }) => values.filter(Number.isFinite)));
  const rows = Array.from({ length: HEIGHT }, () => new Array(WIDTH).fill(" "));
  const place = (/** @type {number} */ x) =>
    Math.round(((Math.log(high) - Math.log(Math.max(x, low))) / Math.log(high / low)) * (HEIGHT - 1));
  for (const { mark, values } of curves) {
    for (let column = 0; column < WIDTH; column++) {
      const step = Math.round((column * (values.length - 1)) / (WIDTH - 1));
      const row = rows[place(/** @type {number} */ (values[step]))];
      if (row) row[column] = mark;
    }
  }
  const steps = /** @type {{ values: number[] }} */ (curves[0]).values.length;
  const labels = rows.map((_, i) => high * (low / high) ** (i / (HEIGHT - 1)));
  const lines = rows.map((row, i) => {
    const label = i % 5 === 0 ? /** @type {number} */ (labels[i]).toPrecision(2) : "";
    return `${label.padStart(8)} │${row.join("").trimEnd()}`;
  });
  const end = `step ${steps}`;
  return [
    ...lines,
    `${" ".repeat(9)}└${"─".repeat(WIDTH)}`,
    `${" ".repeat(10)}1${end.padStart(WIDTH - 1)}`,
  ].join("\n");
}
