/**
 * Generated source and ISA beside the template, scrolling together.
 *
 * The active editor leads and the others follow, so that what scrolls because of it never leads back. The server says which
 * lines belong together.
 */

import {
  OverviewRulerLane,
  Position,
  Range,
  TextEditorRevealType,
  ThemeColor,
  ViewColumn,
  window,
  workspace,
  type Disposable,
  type TextEditor,
  type Uri,
} from "vscode";
import { alignedTop, anchorOf } from "./anchor";
import { Latest } from "./latest";
import { asRange } from "./ranges";
import type { Server } from "./server";
import type { Range as ProtocolRange } from "./units";
import { SCHEME, viewOf } from "./virtual";

interface Place {
  readonly uri: string;
  readonly range: ProtocolRange;
}

/** Shows a view beside the active editor, in the column that has views already. */
export async function showView(uri: Uri, takeFocus: boolean): Promise<void> {
  const shown = window.visibleTextEditors.find((editor) => editor.document.uri.toString() === uri.toString());
  const neighbour = window.visibleTextEditors.find((editor) => editor.document.uri.scheme === SCHEME);
  await window.showTextDocument(await workspace.openTextDocument(uri), {
    viewColumn: shown?.viewColumn ?? neighbour?.viewColumn ?? ViewColumn.Beside,
    preserveFocus: !takeFocus,
    preview: false,
  });
}

/** What is to be done with an editor, given the place in it that belongs to the leader's; null where there is none. */
type Follow = (editor: TextEditor, range: Range | null) => void;

export class LinkedViews implements Disposable {
  private readonly cursors: Latest;
  private readonly scrolls: Latest;
  private readonly listeners: Disposable[];
  private readonly mark = window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new ThemeColor("editor.rangeHighlightBackground"),
    overviewRulerColor: new ThemeColor("editorOverviewRuler.rangeHighlightForeground"),
    overviewRulerLane: OverviewRulerLane.Full,
  });

  constructor(private readonly server: Server) {
    const failed = (reason: unknown): void => {
      server.output.debug(`linked views: ${String(reason)}`);
    };
    this.cursors = new Latest(failed);
    this.scrolls = new Latest(failed);
    const again = (): void => {
      if (window.activeTextEditor !== undefined) {
        this.cursorMoved(window.activeTextEditor);
      }
    };
    // what an answer depends on may come after the cursor has moved: then it is asked for again
    this.listeners = [
      window.onDidChangeTextEditorSelection(({ textEditor }) => {
        this.cursorMoved(textEditor);
      }),
      window.onDidChangeTextEditorVisibleRanges(({ textEditor, visibleRanges }) => {
        this.scrolled(textEditor, visibleRanges);
      }),
      window.onDidChangeVisibleTextEditors((editors) => {
        if (!editors.some((editor) => viewOf(editor.document.uri) !== undefined)) {
          editors.forEach((editor) => {
            editor.setDecorations(this.mark, []);
          });
        }
        again();
      }),
      // a click may move the cursor before its editor is the active one
      window.onDidChangeActiveTextEditor(again),
      // a document that gets another language is opened anew: an included template, once it is known to be one
      workspace.onDidOpenTextDocument((document) => {
        if (document === window.activeTextEditor?.document) {
          again();
        }
      }),
      // the source lines of ISA take a compile, and come with another text
      workspace.onDidChangeTextDocument(({ document }) => {
        if (viewOf(document.uri) !== undefined) {
          again();
        }
      }),
      // another artifact has other lines
      server.onUnitsChanged(again),
      server.onDidChangeState(again),
    ];
  }

  dispose(): void {
    this.listeners.forEach((listener) => {
      listener.dispose();
    });
    this.mark.dispose();
  }

  private cursorMoved(leader: TextEditor): void {
    this.lead(this.cursors, leader, leader.selection.active, (editor, range) => {
      editor.setDecorations(this.mark, range === null ? [] : [range]);
      if (range !== null) {
        editor.revealRange(range, TextEditorRevealType.InCenterIfOutsideViewport);
      }
    });
  }

  private scrolled(leader: TextEditor, visible: readonly Range[]): void {
    const top = visible[0]?.start.line ?? 0;
    const anchor = anchorOf(leader.selection.active.line, top, visible.at(-1)?.end.line ?? top);
    const position = anchor.offset === 0 ? new Position(anchor.line, 0) : leader.selection.active;
    this.lead(this.scrolls, leader, position, (editor, range) => {
      if (range !== null) {
        const line = alignedTop(range.start.line, anchor);
        editor.revealRange(new Range(line, 0, line, 0), TextEditorRevealType.AtTop);
      }
    });
  }

  private lead(latest: Latest, leader: TextEditor, position: Position, follow: Follow): void {
    const others = window.visibleTextEditors.filter((editor) => editor !== leader);
    const isView = viewOf(leader.document.uri) !== undefined;
    const isTemplate = leader.document.languageId.startsWith("ckwatch-");
    const linked = isView || (isTemplate && others.some((editor) => viewOf(editor.document.uri) !== undefined));
    const wanted = workspace.getConfiguration("ckwatch").get<boolean>("linkedScrolling", true);
    if (leader === window.activeTextEditor && linked && wanted && this.server.state === "running") {
      latest.run(async () => {
        follow(leader, null);
        await (isView ? this.toTemplate(leader, position, others, follow) : this.toViews(leader, position, others, follow));
      });
    }
  }

  private async toViews(leader: TextEditor, position: Position, others: readonly TextEditor[], follow: Follow): Promise<void> {
    for (const editor of others) {
      const view = viewOf(editor.document.uri);
      if (view !== undefined) {
        const uri = this.server.written(leader.document.uri);
        const place = await this.ask("ckwatch.toGenerated", { uri, position: plain(position), ...view });
        follow(editor, this.rangeIn(editor, place));
      }
    }
  }

  private async toTemplate(leader: TextEditor, position: Position, others: readonly TextEditor[], follow: Follow): Promise<void> {
    const uri = this.server.written(leader.document.uri);
    const place = await this.ask("ckwatch.toTemplate", { uri, position: plain(position) });
    for (const editor of others) {
      if (viewOf(editor.document.uri) === undefined) {
        follow(editor, this.rangeIn(editor, place));
      }
    }
  }

  private async ask(command: string, argument: { uri: string; [key: string]: unknown }): Promise<Place | null> {
    return (await this.server.execute(command, argument)) as Place | null;
  }

  private rangeIn(editor: TextEditor, place: Place | null): Range | null {
    return place !== null && this.server.uri(place.uri)?.toString() === editor.document.uri.toString() ? asRange(place.range) : null;
  }
}

function plain({ line, character }: Position): { line: number; character: number } {
  return { line, character };
}
