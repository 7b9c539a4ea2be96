import assert from "node:assert/strict";
import test from "node:test";
import { candidates, isVersion } from "../src/executable";

const around = { setting: "", folders: ["/w/one", "/w/two"], home: "/home/me", windows: false };

function lines(changes: Partial<typeof around>): string[] {
  return candidates({ ...around, ...changes }).map(({ command, args }) => [command, ...args].join(" "));
}

test("PATH, then each folder's environment, then Python", () => {
  assert.deepEqual(lines({}), [
    "ckwatch",
    "/w/one/.venv/bin/ckwatch",
    "/w/two/.venv/bin/ckwatch",
    "python3 -m ckwatch",
    "python -m ckwatch",
  ]);
});

test("on Windows", () => {
  assert.deepEqual(lines({ folders: ["C:/w"], windows: true }), [
    "ckwatch",
    "C:/w/.venv/Scripts/ckwatch.exe",
    "py -m ckwatch",
    "python -m ckwatch",
  ]);
});

for (const [setting, expected] of [
  ["/opt/ckwatch", "/opt/ckwatch"],
  [" ~/bin/ckwatch ", "/home/me/bin/ckwatch"],
  ["${workspaceFolder}/env/bin/ckwatch", "/w/one/env/bin/ckwatch"],
  ["${userHome}/ckwatch", "/home/me/ckwatch"],
  ["~other/ckwatch", "~other/ckwatch"],
] as const) {
  test(`the setting ${setting} alone`, () => {
    assert.deepEqual(lines({ setting }), [expected]);
  });
}

test("what says its version is ckwatch", () => {
  assert.ok(isVersion("ckwatch 0.1.0\n"));
  assert.ok(!isVersion("Python 3.11.7\n"));
  assert.ok(!isVersion(""));
});
