// node summary.mjs <report of vitest> <exit status of npm cit>: the last lines of .ci/run and its exit status.
// Everything is required there, so a skipped test counts as failed, and so does a file that did not load.
import { existsSync, readFileSync } from "node:fs";

const [path, status] = process.argv.slice(2);
const failures = [];
let passed = 0;
if (existsSync(path)) {
  for (const file of JSON.parse(readFileSync(path, "utf8")).testResults) {
    const before = failures.length;
    for (const test of file.assertionResults) {
      if (test.status === "passed") passed += 1;
      else failures.push(`${test.status}: ${test.fullName}`);
    }
    if (file.status !== "passed" && failures.length === before) failures.push(`failed: ${file.name}`);
  }
}
if (status !== "0" && failures.length === 0) failures.push(`failed: npm cit ended with status ${status}`);
if (passed === 0 && failures.length === 0) failures.push("failed: no test ran");
for (const failure of failures) console.log(failure);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
