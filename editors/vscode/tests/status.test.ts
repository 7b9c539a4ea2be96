import assert from "node:assert/strict";
import test from "node:test";
import { shownStatus, type ServerStatus } from "../src/status";

const QUIET: ServerStatus = { health: "ok", quiescent: true, message: "12 units", folder: "/w" };
const BUSY: ServerStatus = { health: "ok", quiescent: false, message: "compiling 2", folder: "/v" };
const BAD: ServerStatus = { health: "error", quiescent: true, message: "no compiler\nInstall one", folder: "/u" };

for (const [statuses, text, tooltip] of [
  [[], "$(check) ckwatch", ""],
  [[QUIET], "$(check) ckwatch: 12 units", "12 units"],
  [[BUSY], "$(sync~spin) ckwatch: compiling 2", "compiling 2"],
  [[QUIET, BUSY], "$(sync~spin) ckwatch: compiling 2", "/w: 12 units\n/v: compiling 2"],
  [[BUSY, BAD], "$(error) ckwatch: no compiler", "/v: compiling 2\n/u: no compiler\nInstall one"],
  [[{ ...BAD, health: "warning" }], "$(warning) ckwatch: no compiler", "no compiler\nInstall one"],
  [[{ ...QUIET, message: "x".repeat(60) }], `$(check) ckwatch: ${"x".repeat(47)}…`, "x".repeat(60)],
] as const) {
  test(`${statuses.map((status) => status.message).join(", ")} is shown as ${text}`, () => {
    const shown = shownStatus(statuses);
    assert.equal(shown.text, text);
    assert.equal(shown.tooltip, tooltip);
  });
}

test("the worst health counts", () => {
  assert.equal(shownStatus([QUIET, BAD, BUSY]).health, "error");
  assert.equal(shownStatus([]).health, "ok");
});
