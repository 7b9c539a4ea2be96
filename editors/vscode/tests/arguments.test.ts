import assert from "node:assert/strict";
import test from "node:test";
import { argumentOf } from "../src/arguments";

const ACTIVE = { uri: "file:///w/t.hip.j2" };

class Uri {
  readonly path = "/w/other.hip.j2";
}

for (const [from, given, expected] of [
  ["the palette", undefined, ACTIVE],
  ["an editor's menu", new Uri(), ACTIVE],
  ["a lens", { unit: "k/i@gfx942", uri: "file:///w/k.kernel.toml" }, { unit: "k/i@gfx942", uri: "file:///w/k.kernel.toml" }],
  ["the tree", { label: "i", about: { unit: "k/i@gfx942" } }, { unit: "k/i@gfx942" }],
] as const) {
  test(`from ${from}`, () => {
    assert.deepEqual(argumentOf(given, ACTIVE), expected);
  });
}
