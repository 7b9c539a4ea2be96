import assert from "node:assert/strict";
import test from "node:test";
import { descriptionOf, isBusy, kernelsOf, nameIn, readUnits, stateOf, type Unit } from "../src/units";

const UNIT: Unit = {
  folder: "/w",
  kernel: "gemm",
  kernelUri: "file:///w/gemm.kernel.toml",
  instance: "small",
  arch: "gfx942",
  id: "gemm/small@gfx942",
  uri: "file:///w/gemm.kernel.toml",
  range: { start: { line: 3, character: 0 }, end: { line: 3, character: 12 } },
  phase: "done",
  outcome: "built",
  fresh: true,
  text: "41.57 µs",
  standing: "fresh",
  errors: 0,
  warnings: 0,
  active: false,
};

for (const [changes, state] of [
  [{}, "built"],
  [{ phase: "compiling" }, "running"],
  [{ phase: "rendering" }, "running"],
  [{ standing: "running" }, "running"],
  [{ phase: "queued" }, "queued"],
  [{ phase: "waiting", outcome: "failed" }, "queued"],
  [{ outcome: "failed", errors: 2 }, "failed"],
  [{ outcome: null, phase: "idle", errors: 1 }, "failed"],
  [{ outcome: null, phase: "idle" }, "none"],
  [{ fresh: false }, "stale"],
  [{ outcome: "faulted" }, "faulted"],
] as const) {
  test(`${JSON.stringify(changes)} is ${state}`, () => {
    const unit = { ...UNIT, ...changes };
    assert.equal(stateOf(unit), state);
    assert.equal(isBusy(unit), state === "running" || state === "queued");
  });
}

for (const [changes, text] of [
  [{}, "41.57 µs"],
  [{ active: true }, "●  41.57 µs"],
  [{ text: "" }, ""],
  [{ errors: 1, warnings: 2 }, "41.57 µs  1 error  2 warnings"],
] as const) {
  test(`${JSON.stringify(changes)} is described by “${text}”`, () => {
    assert.equal(descriptionOf({ ...UNIT, ...changes }), text);
  });
}

test("kernels of the same name in two folders are two", () => {
  const units = [UNIT, { ...UNIT, folder: "/v" }, { ...UNIT, instance: "large" }];
  assert.deepEqual(
    kernelsOf(units).map((kernel) => [kernel.folder, kernel.units.map((unit) => unit.instance)]),
    [
      ["/w", ["small", "large"]],
      ["/v", ["small"]],
    ],
  );
});

test("the arch stands in a name only where there are several", () => {
  const one = kernelsOf([UNIT])[0];
  const two = kernelsOf([UNIT, { ...UNIT, arch: "gfx950" }])[0];
  assert.ok(one !== undefined && two !== undefined);
  assert.equal(nameIn(one, UNIT), "small");
  assert.equal(nameIn(two, UNIT), "small@gfx942");
});

test("an answer that is none has no units", () => {
  assert.deepEqual(readUnits(null), []);
  assert.deepEqual(readUnits({ units: [] }), []);
  assert.deepEqual(readUnits([UNIT, null, 3, { id: "half" }]), [UNIT]);
});
