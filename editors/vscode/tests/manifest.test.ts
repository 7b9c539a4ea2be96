import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import test from "node:test";
import { EDITOR_COMMANDS, EDITOR_SETTINGS, SERVER_COMMANDS, SERVER_SETTINGS } from "../src/contract";

interface Manifest {
  readonly icon: string;
  readonly contributes: {
    readonly commands: readonly { command: string; title: string; category: string }[];
    readonly configuration: { readonly properties: Record<string, { description?: string; markdownDescription?: string }> };
    readonly grammars: readonly { path: string }[];
    readonly languages: readonly { configuration?: string }[];
    readonly menus: Record<string, readonly { command: string }[]>;
    readonly walkthroughs: readonly { steps: readonly { media: { markdown: string } }[] }[];
  };
}

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const { commands, configuration, grammars, languages, menus, walkthroughs } = manifest.contributes;

test("the commands are those that are registered", () => {
  assert.deepEqual(commands.map(({ command }) => command).sort(), [...SERVER_COMMANDS, ...EDITOR_COMMANDS].sort());
});

test("the settings are those that are read", () => {
  assert.deepEqual(
    Object.keys(configuration.properties).sort(),
    [...SERVER_SETTINGS, ...EDITOR_SETTINGS].map((name) => `ckwatch.${name}`).sort(),
  );
});

test("every setting has a description", () => {
  for (const [name, { description, markdownDescription }] of Object.entries(configuration.properties)) {
    assert.ok(description ?? markdownDescription, name);
  }
});

test("menus name commands that there are", () => {
  const known = new Set(commands.map(({ command }) => command));
  for (const { command } of Object.values(menus).flat()) {
    assert.ok(known.has(command), command);
  }
});

test("files that are named are there", () => {
  const files = [
    manifest.icon,
    ...grammars.map(({ path }) => path),
    ...languages.flatMap(({ configuration }) => configuration ?? []),
    ...walkthroughs.flatMap(({ steps }) => steps.map(({ media }) => media.markdown)),
  ];
  for (const file of files) {
    assert.ok(existsSync(file), file);
  }
});
