import assert from "node:assert/strict";
import test from "node:test";
import { ofCode, viewOf, written } from "../src/virtual";

const parts = { scheme: "ckwatch", authority: "isa", path: "/gemm/v1.5_small@gfx90a:xnack+.s", query: "folder=/home/me/a b/ü" };

test("the view of a unit", () => {
  assert.deepEqual(viewOf(parts), { kind: "isa", unit: "gemm/v1.5_small@gfx90a:xnack+" });
  assert.deepEqual(viewOf({ ...parts, authority: "source", path: "/gemm/small@gfx942.hip" }), {
    kind: "source",
    unit: "gemm/small@gfx942",
  });
});

test("other URIs are no views", () => {
  assert.equal(viewOf({ ...parts, scheme: "file" }), undefined);
  assert.equal(viewOf({ ...parts, authority: "log" }), undefined);
});

test("written as the server does", () => {
  assert.equal(written(parts), "ckwatch://isa/gemm/v1.5_small@gfx90a%3Axnack%2B.s?folder=/home/me/a%20b/%C3%BC");
  assert.equal(written({ ...parts, path: "/k/(a)!@gfx942.s", query: "folder=/x=y&z" }), "ckwatch://isa/k/%28a%29%21@gfx942.s?folder=/x%3Dy%26z");
  assert.equal(written({ ...parts, path: "/k/a@gfx942.s", query: "" }), "ckwatch://isa/k/a@gfx942.s");
});

test("the document of a code object", () => {
  assert.equal(written(ofCode("/home/me/a b/k.hsaco")), "ckwatch://code/k.hsaco.s?folder=/home/me/a%20b");
  assert.equal(written(ofCode("/k.so")), "ckwatch://code/k.so.s?folder=/");
  assert.equal(viewOf(ofCode("/home/me/k.hsaco")), undefined);
});
