import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const repository = fileURLToPath(new URL("../../", import.meta.url));

/** An otherwise empty folder outside the repository with the packed library installed in it. */
export interface Consumer {
  readonly folder: string;
  /** The library as npm would publish it. */
  readonly tarball: string;
  /** Paths inside the tarball. */
  readonly files: readonly string[];
  /** Write a file into the folder and return its path. */
  write(name: string, text: string): string;
  remove(): void;
}

/**
 * Packs the built library and installs the tarball as a user would. Its one dependency is packed
 * from node_modules beside it, so npm asks no registry and the tests run offline.
 */
export function installPacked(): Consumer {
  if (!existsSync(join(repository, "dist/index.js"))) {
    throw new Error("dist/ is missing: run `npm run build` before the tests of the package");
  }
  const folder = mkdtempSync(join(tmpdir(), "wasm-attention-"));
  const packed = JSON.parse(
    npm(
      repository,
      "pack",
      "--json",
      "--pack-destination",
      folder,
      ".",
      "./node_modules/@assemblyscript/loader",
    ),
  ) as { name: string; filename: string; files: { path: string }[] }[];
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  npm(
    folder,
    "install",
    "--offline",
    "--no-audit",
    "--no-fund",
    ...packed.map(({ filename }) => `./${filename}`),
  );
  const library = packed.find(({ name }) => name === "wasm-attention");
  if (library === undefined) throw new Error("npm pack did not report wasm-attention");
  return {
    folder,
    tarball: join(folder, library.filename),
    files: library.files.map(({ path }) => path),
    write(name, text) {
      const path = join(folder, name);
      writeFileSync(path, text);
      return path;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Runs the npm that runs these tests; scripts are off because dist/ is already built. */
function npm(cwd: string, ...args: string[]): string {
  const cli = process.env.npm_execpath;
  const [command, prefix] = cli === undefined ? ["npm", []] : [process.execPath, [cli]];
  return execFileSync(command, [...prefix, ...args, "--ignore-scripts"], {
    cwd,
    encoding: "utf8",
    stdio: "pipe",
  });
}
