/** How many of a kernel's instructions each line of a template issues, as a bar beside the line numbers. */

import {
  OverviewRulerLane,
  Range,
  Uri,
  window,
  workspace,
  type Disposable,
  type TextDocumentContentChangeEvent,
  type TextEditor,
} from "vscode";
import type { Server } from "./server";

export interface HotLine {
  readonly line: number;
  /** 1 to 4 */
  readonly level: number;
}

export interface LineHeat {
  readonly uri: string;
  readonly lines: readonly HotLine[];
}

/** By level. */
const COLOURS = ["#e0a03060", "#e08a20a0", "#e06a10d0", "#e03a00ff"] as const;

type Change = Pick<TextDocumentContentChangeEvent, "range" | "text">;

/** The lines after edits, as the editor moves what is drawn beside them. */
export function moved(lines: readonly HotLine[], changes: readonly Change[]): readonly HotLine[] {
  return changes.reduce((found, { range, text }) => {
    const added = text.split("\n").length - 1 - (range.end.line - range.start.line);
    const atStart = range.end.character === 0 && range.start.character === 0;
    return found.flatMap((one) => {
      if (one.line < range.start.line || (one.line === range.start.line && !(atStart && range.end.line === one.line))) {
        return one;
      }
      return one.line < range.end.line || (one.line === range.end.line && !atStart) ? [] : { ...one, line: one.line + added };
    });
  }, lines);
}

export class Heat implements Disposable {
  private readonly kinds = COLOURS.map((colour) =>
    window.createTextEditorDecorationType({
      gutterIconPath: Uri.parse(`data:image/svg+xml,${encodeURIComponent(bar(colour))}`),
      gutterIconSize: "contain",
      overviewRulerColor: colour,
      overviewRulerLane: OverviewRulerLane.Left,
    }),
  );
  /** By URI, the lines where they are now. */
  private readonly known = new Map<string, readonly HotLine[]>();
  private readonly listeners: Disposable[];

  constructor(server: Server) {
    this.listeners = [
      server.onLineHeat(({ uri, lines }) => {
        const document = server.uri(uri)?.toString();
        if (document !== undefined) {
          this.known.set(document, lines);
          this.show(window.visibleTextEditors);
        }
      }),
      server.onDidChangeState((state) => {
        if (state !== "running") {
          this.known.clear();
          this.show(window.visibleTextEditors);
        }
      }),
      window.onDidChangeVisibleTextEditors((editors) => {
        this.show(editors);
      }),
      workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        const uri = document.uri.toString();
        const lines = this.known.get(uri);
        if (lines !== undefined) {
          this.known.set(uri, moved(lines, contentChanges));
        }
      }),
      workspace.onDidCloseTextDocument((document) => this.known.delete(document.uri.toString())),
    ];
  }

  dispose(): void {
    [...this.listeners, ...this.kinds].forEach((one) => {
      one.dispose();
    });
  }

  private show(editors: readonly TextEditor[]): void {
    for (const editor of editors) {
      const lines = this.known.get(editor.document.uri.toString()) ?? [];
      this.kinds.forEach((kind, index) => {
        const here = lines.filter(({ level }) => level === index + 1);
        editor.setDecorations(
          kind,
          here.map(({ line }) => new Range(line, 0, line, 0)),
        );
      });
    }
  }
}

function bar(colour: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16"><rect x="10" width="4" height="16" fill="${colour}"/></svg>`;
}
