import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = new URL(".", import.meta.url);

/** Installs the peers at the versions of package-lock.json, once; they are no dependencies of the project itself. */
export function installPeers(): void {
  if (isInstalled()) return;
  console.error("bench/peers: npm ci --ignore-scripts (about 250 MB, only this once)");
  execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: fileURLToPath(here),
    stdio: ["ignore", "ignore", "inherit"],
    shell: process.platform === "win32",
  });
}

function isInstalled(): boolean {
  const { dependencies } = JSON.parse(readFileSync(new URL("package.json", here), "utf8"));
  return Object.entries(dependencies).every(([name, version]) => {
    const manifest = new URL(`node_modules/${name}/package.json`, here);
    return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).version === version;
  });
}
