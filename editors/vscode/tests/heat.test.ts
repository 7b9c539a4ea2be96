import assert from "node:assert/strict";
import { test } from "node:test";
import { Heat, moved, type LineHeat } from "../src/heat";
import type { Server } from "../src/server";
import { Editor, EventEmitter, Range, Uri, happens, window } from "./vscode";

const HOT = [
  { line: 1, level: 4 },
  { line: 5, level: 1 },
];

function lines(text: string, ...range: [number, number, number, number]): number[] {
  const given = new Range(...range) as never;
  return moved(HOT, [{ range: given, text }]).map(({ line }) => line);
}

test("lines move with edits", () => {
  assert.deepEqual(lines("x", 1, 3, 1, 3), [1, 5]);
  assert.deepEqual(lines("\n", 1, 3, 1, 3), [1, 6]);
  assert.deepEqual(lines("a\nb\n", 1, 0, 1, 0), [3, 7]);
  assert.deepEqual(lines("", 2, 0, 4, 0), [1, 3]);
  assert.deepEqual(lines("", 4, 0, 6, 0), [1]);
  assert.deepEqual(lines("", 0, 4, 1, 2), [4]);
});

class HeatServer {
  readonly heat = new EventEmitter<LineHeat>();
  readonly states = new EventEmitter<string>();
  readonly onLineHeat = this.heat.event;
  readonly onDidChangeState = this.states.event;
  readonly uri = (value: string): Uri => Uri.parse(value);
}

test("what is known is shown in every editor of the document, until the server stops", () => {
  const server = new HeatServer();
  const uri = "file:///w/kernel.hip.j2";
  const editor = new Editor(uri, "ckwatch-template");
  window.visibleTextEditors = [editor];
  const heat = new Heat(server as unknown as Server);
  server.heat.fire({ uri, lines: HOT });
  assert.deepEqual(editor.drawn, [5, 1]);
  happens.change(editor.document, [{ range: new Range(0, 0, 0, 0), text: "more\n" }]);
  const other = new Editor(uri, "ckwatch-template");
  happens.show(editor, other);
  assert.deepEqual(other.drawn, [6, 2]);
  server.states.fire("stopped");
  assert.deepEqual(other.drawn, []);
  heat.dispose();
});
