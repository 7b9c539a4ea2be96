// Bundles the extension into dist/extension.js; with --tests also each tests/*.test.ts into dist/tests, for node --test,
// where tests/vscode.ts stands for the editor.
import { readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const options = process.argv.slice(2);
const common = { bundle: true, platform: "node", target: "node20", logLevel: "warning" };

rmSync("dist", { recursive: true, force: true });
await build({
  ...common,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  format: "cjs",
  external: ["vscode"],
  minify: options.includes("--minify"),
});
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
