// Builds ../built from these sources: one script, one style sheet, one document.
//
//   node build.mjs           writes ../built and the digest of the sources
//   node build.mjs --check   writes nothing; fails if ../built differs from a fresh build
//   node build.mjs --test    runs the tests of the pure functions
//
// 1. The same sources and lockfile give the same bytes: no date, no path, no source map.
// 2. `sources.sha256` lets a reader without node see whether built and sources agree: the digest of
//    every file that `git` would track here, name and bytes, in the order of names.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const SOURCE = dirname(fileURLToPath(import.meta.url));
const BUILT = join(SOURCE, "..", "built");
const NOTICE =
  "/*! segtable; Preact (MIT, Copyright (c) 2015-present Jason Miller) is part of this file */";

const SHARED = {
  bundle: true,
  charset: "utf8",
  legalComments: "none",
  minify: true,
  target: ["es2022", "chrome105", "firefox115", "safari16"],
  write: false,
  absWorkingDir: SOURCE,
  logLevel: "warning",
};

async function built() {
  const script = await build({
    ...SHARED,
    entryPoints: ["main.tsx"],
    format: "iife",
    jsx: "automatic",
    jsxImportSource: "preact",
    banner: { js: NOTICE },
  });
  const style = await build({ ...SHARED, entryPoints: ["page.css"] });
  return {
    "index.html": await readFile(join(SOURCE, "index.html"), "utf8"),
    "page.css": style.outputFiles[0].text,
    "page.js": script.outputFiles[0].text,
    "sources.sha256": `${await digest()}\n`,
  };
}

async function digest() {
  const hash = createHash("sha256");
  for (const name of (await sources(SOURCE)).sort()) {
    const bytes = await readFile(join(SOURCE, name));
    hash.update(`${name}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex");
}

async function sources(folder) {
  const found = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.name === "node_modules" || entry.name.startsWith(".")) continue;
    if (entry.isDirectory()) found.push(...(await sources(path)));
    else found.push(relative(SOURCE, path).split(sep).join("/"));
  }
  return found;
}

async function check(files) {
  let same = true;
  for (const [name, text] of Object.entries(files)) {
    const now = await readFile(join(BUILT, name), "utf8").catch(() => "");
    if (now === text) continue;
    same = false;
    console.error(`built/${name} is not what the sources give: run make page`);
  }
  return same;
}

async function test() {
  const folder = await mkdtemp(join(tmpdir(), "page-tests-"));
  try {
    const entryPoints = (await sources(SOURCE)).filter((name) => name.endsWith(".test.ts"));
    await build({
      ...SHARED,
      minify: false,
      target: "node20",
      entryPoints,
      outdir: folder,
      outExtension: { ".js": ".mjs" },
      format: "esm",
      platform: "node",
      write: true,
    });
    const files = (await readdir(folder, { recursive: true })).filter((name) =>
      name.endsWith(".mjs"),
    );
    return (
      spawnSync(
        process.execPath,
        ["--test", "--test-reporter=dot", ...files.map((name) => join(folder, name))],
        {
          stdio: "inherit",
        },
      ).status === 0
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

if (process.argv.includes("--test")) {
  process.exitCode = (await test()) ? 0 : 1;
} else {
  const files = await built();
  if (process.argv.includes("--check")) process.exitCode = (await check(files)) ? 0 : 1;
  else for (const [name, text] of Object.entries(files)) await writeFile(join(BUILT, name), text);
}
