import assert from "node:assert/strict";
import test from "node:test";
import { Latest } from "../src/latest";

test("of the jobs that come while one runs, only the newest runs", async () => {
  const done: string[] = [];
  const gates = new Map<string, () => void>();
  const latest = new Latest((reason) => {
    throw reason;
  });
  const job = (name: string): Promise<void> =>
    new Promise((resolve) => {
      gates.set(name, () => {
        done.push(name);
        resolve();
      });
    });
  for (const name of ["first", "second", "third"]) {
    latest.run(() => job(name));
  }
  gates.get("first")?.();
  await settled();
  assert.deepEqual([...gates.keys()], ["first", "third"]);
  gates.get("third")?.();
  await settled();
  assert.deepEqual(done, ["first", "third"]);
});

test("a job that fails is told of and holds up nobody", async () => {
  const failures: unknown[] = [];
  const done: string[] = [];
  const latest = new Latest((reason) => failures.push(reason));
  latest.run(() => Promise.reject(new Error("gone")));
  await settled();
  latest.run(() => {
    done.push("next");
    return Promise.resolve();
  });
  await settled();
  assert.deepEqual(failures, [new Error("gone")]);
  assert.deepEqual(done, ["next"]);
});

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
