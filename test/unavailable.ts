import { it } from "vitest";

/** With REQUIRE_ALL=1 what cannot run here fails instead of being skipped by name. */
export const requireAll = process.env.REQUIRE_ALL === "1";

/** Registers a test that says what could not be tested and why: skipped, or failing under REQUIRE_ALL=1. */
export function unavailable(reason: string): void {
  if (requireAll) {
    it(`must run under REQUIRE_ALL=1: ${reason}`, () => {
      throw new Error(reason);
    });
  } else {
    it.skip(`not run: ${reason}`);
    // The default reporter counts skipped tests but does not print their names.
    console.warn(`SKIPPED: ${reason}`);
  }
}
