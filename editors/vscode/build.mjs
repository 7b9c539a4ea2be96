// Bundles the extension into dist/extension.js; with --tests also each tests/*.test.ts into dist/tests, for node --test,
// where tests/vscode.ts stands for the editor.
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const options = process.argv.slice(2);
const common = { bundle: true, platform: "node", target: "node20", logLevel: "warning" };

rmSync("dist/tests", { recursive: true, force: true });
await build({
  ...common,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  format: "cjs",
  external: ["vscode"],
  minify: options.includes("--minify"),
});
// An extension's page shows pictures of https addresses and such that are in its text; the package asks nothing of a network.
writeFileSync(
  "dist/README.md",
  readFileSync("README.md", "utf8").replace(
    /\]\((\.\.\/\.\.\/docs\/images\/[\w-]+\.png)\)/g,
    (_, path) => `](data:image/png;base64,${readFileSync(path).toString("base64")})`,
  ),
);
if (options.includes("--tests")) {
  await build({
    ...common,
    entryPoints: readdirSync("tests")
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) => `tests/${name}`),
    outdir: "dist/tests",
    outExtension: { ".js": ".mjs" },
    format: "esm",
    packages: "external",
    alias: { vscode: "./tests/vscode.ts" },
  });
}
