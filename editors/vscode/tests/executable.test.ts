import assert from "node:assert/strict";
import test from "node:test";
import { INSTALLERS, candidates, installLine, isSource, isVersion, startOptions } from "../src/executable";

const around = { setting: "", folders: ["/w/one", "/w/two"], home: "/home/me", windows: false };

function lines(changes: Partial<typeof around>): string[] {
  return candidates({ ...around, ...changes }).map(({ command, args }) => [command, ...args].join(" "));
}

test("PATH, then each folder's environment, then Python", () => {
  assert.deepEqual(lines({}), [
    "ckwatch",
    "/w/one/.venv/bin/ckwatch",
    "/w/two/.venv/bin/ckwatch",
    "python3 -P -m ckwatch",
    "python -P -m ckwatch",
  ]);
});

test("on Windows", () => {
  assert.deepEqual(lines({ folders: ["C:/w"], windows: true }), [
    "ckwatch",
    "C:/w/.venv/Scripts/ckwatch.exe",
    "py -P -m ckwatch",
    "python -P -m ckwatch",
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

test("what is started runs beside the editor's program, not in the workspace", () => {
  assert.equal(startOptions("/usr/lib/code/code", {}, false).cwd, "/usr/lib/code");
  assert.equal(startOptions("C:\\Code\\Code.exe", {}, true).cwd, "C:\\Code");
});

for (const [given, expected] of [
  [undefined, undefined],
  ["", undefined],
  [":", undefined],
  [".", undefined],
  [":/opt/lib", "/opt/lib"],
  ["/opt/lib:", "/opt/lib"],
  ["/a::lib:./lib:/b", "/a:/b"],
] as const) {
  test(`of PYTHONPATH=${given ?? "(unset)"} what does not depend on the folder`, () => {
    const { env } = startOptions("/usr/bin/node", { HOME: "/home/me", ...(given === undefined ? {} : { PYTHONPATH: given }) }, false);
    assert.equal(env["PYTHONPATH"], expected);
    assert.equal(env["HOME"], "/home/me");
  });
}

test("of PYTHONPATH on Windows", () => {
  const { env } = startOptions("C:\\Code\\Code.exe", { PYTHONPATH: "C:\\lib;;lib;D:/more" }, true);
  assert.equal(env["PYTHONPATH"], "C:\\lib;D:/more");
});

test("what says its version is ckwatch", () => {
  assert.ok(isVersion("ckwatch 0.1.0\n"));
  assert.ok(!isVersion("Python 3.11.7\n"));
  assert.ok(!isVersion(""));
});

test("nothing is installed by its name alone, which may be a stranger's", () => {
  for (const { line } of INSTALLERS) {
    assert.doesNotMatch(line, /ckwatch/);
    assert.equal(installLine(line, "/home/me/it's here", false), `${line} '/home/me/it'\\''s here'`);
    assert.equal(installLine(line, "C:\\my source", true), `${line} "C:\\my source"`);
  }
  assert.ok(isSource('[project]\nname = "ckwatch"\n'));
  assert.ok(!isSource('[project]\nname = "ckwatch-tools"\n'));
  assert.ok(!isSource(""));
});
