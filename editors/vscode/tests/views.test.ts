import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import type { Server } from "../src/server";
import { LinkedViews } from "../src/views";
import { Editor, EventEmitter, Uri, happens, window } from "./vscode";

const LINES = 40;

/** Answers that what is asked about is in `line`; -1: nowhere. */
class ScriptedServer {
  line = LINES;
  state = "running";
  readonly states = new EventEmitter<string>();
  readonly units = new EventEmitter<undefined>();
  readonly onDidChangeState = this.states.event;
  readonly onUnitsChanged = this.units.event;
  readonly output = {
    debug: (line: string): void => {
      throw new Error(line);
    },
  };

  written(uri: Uri): string {
    return uri.toString();
  }

  uri(value: string): Uri {
    return Uri.parse(value);
  }

  execute(command: string): Promise<unknown> {
    const { document } = command === "ckwatch.toGenerated" ? isa : template;
    const place = { line: this.line, character: 0 };
    return Promise.resolve(this.line < 0 ? null : { uri: document.uri.toString(), range: { start: place, end: place } });
  }
}

let server: ScriptedServer;
let template: Editor;
let isa: Editor;
let views: LinkedViews;

beforeEach(() => {
  server = new ScriptedServer();
  template = new Editor("file:///w/templates/kernel.j2", "ckwatch-template");
  isa = new Editor("ckwatch://isa/kernel/small@gfx942.s?folder=/w", "ckwatch-isa");
  window.activeTextEditor = template;
  window.visibleTextEditors = [template, isa];
  views = new LinkedViews(server as unknown as Server);
});

afterEach(() => {
  views.dispose();
});

async function marked(editor: Editor): Promise<readonly number[]> {
  await new Promise((resolve) => setImmediate(resolve));
  return editor.marked;
}

test("the cursor's place is marked in a view beside the template", async () => {
  happens.moveCursor(template);
  assert.deepEqual(await marked(isa), [LINES]);
  server.line = -1;
  happens.moveCursor(template);
  assert.deepEqual(await marked(isa), []);
});

test("a view whose text comes to know its source lines later is marked then", async () => {
  server.line = -1;
  happens.moveCursor(template);
  assert.deepEqual(await marked(isa), []);
  server.line = LINES;
  happens.change(isa.document);
  assert.deepEqual(await marked(isa), [LINES]);
});

test("an included template leads as soon as it is known to be a template", async () => {
  template.document.languageId = "plaintext";
  happens.moveCursor(template);
  assert.deepEqual(await marked(isa), []);
  happens.recognise(template.document, "ckwatch-template");
  assert.deepEqual(await marked(isa), [LINES]);
});

test("an editor whose cursor moved before it was the active one leads once it is", async () => {
  happens.moveCursor(isa);
  assert.deepEqual(await marked(template), []);
  happens.activate(isa);
  assert.deepEqual(await marked(template), [LINES]);
});

test("what was asked before the server ran is asked when it does", async () => {
  server.state = "starting";
  happens.moveCursor(template);
  assert.deepEqual(await marked(isa), []);
  server.state = "running";
  server.states.fire("running");
  assert.deepEqual(await marked(isa), [LINES]);
});

test("who leads is no longer marked", async () => {
  happens.moveCursor(template);
  assert.deepEqual(await marked(isa), [LINES]);
  happens.activate(isa);
  assert.deepEqual(await marked(template), [LINES]);
  assert.deepEqual(await marked(isa), []);
});
