// The width of assembly/, which Biome does not read: 120 characters, but for the rows of an aligned table. Those are
// lines that differ from a neighbour in their digits alone.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const WIDTH = 120;
const folder = fileURLToPath(new URL("../assembly/", import.meta.url));

/**
 * Numbers of the lines that are too long.
 * @param {string} text
 */
function tooLong(text) {
  const lines = text.split("\n");
  const patterns = lines.map((line) => line.replaceAll(/\d+/g, "0"));
  return lines.flatMap((line, i) => {
    const isTableRow = patterns[i] === patterns[i - 1] || patterns[i] === patterns[i + 1];
    return line.length > WIDTH && !isTableRow ? [i + 1] : [];
  });
}

for (const name of readdirSync(folder).filter((file) => file.endsWith(".ts"))) {
  for (const line of tooLong(readFileSync(folder + name, "utf8"))) {
    console.error(`assembly/${name}:${line} is longer than ${WIDTH} characters`);
    process.exitCode = 1;
  }
}
