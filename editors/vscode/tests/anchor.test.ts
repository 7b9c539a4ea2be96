import assert from "node:assert/strict";
import test from "node:test";
import { alignedTop, anchorOf } from "../src/anchor";

for (const [cursor, top, bottom, line, offset] of [
  [50, 40, 80, 50, 10],
  [40, 40, 80, 40, 0],
  [80, 40, 80, 80, 40],
  [39, 40, 80, 40, 0],
  [81, 40, 80, 40, 0],
] as const) {
  test(`cursor ${cursor} in lines ${top} to ${bottom}`, () => {
    assert.deepEqual(anchorOf(cursor, top, bottom), { line, offset });
  });
}

test("the other view has the line at the same height, as far as it can", () => {
  assert.equal(alignedTop(200, { line: 50, offset: 10 }), 190);
  assert.equal(alignedTop(4, { line: 50, offset: 10 }), 0);
});
