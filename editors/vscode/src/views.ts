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
import { Latest } from "./latest";
import { asRange, type Server } from "./server";
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

export class LinkedViews implements Disposable {
  private readonly latest: Latest;
  private readonly listeners: Disposable[];
  private readonly mark = window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new ThemeColor("editor.rangeHighlightBackground"),
    overviewRulerColor: new ThemeColor("editorOverviewRuler.rangeHighlightForeground"),
    overviewRulerLane: OverviewRulerLane.Full,
  });

  constructor(private readonly server: Server) {
    this.latest = new Latest((reason) => {
      server.output.debug(`linked views: ${String(reason)}`);
    });
    this.listeners = [
      window.onDidChangeTextEditorVisibleRanges(({ textEditor, visibleRanges }) => {
        const top = visibleRanges[0]?.start;
        if (top !== undefined) {
          this.lead(textEditor, new Position(top.line, 0), TextEditorRevealType.AtTop);
        }
      }),
      window.onDidChangeTextEditorSelection(({ textEditor, selections }) => {
        const cursor = selections[0]?.active;
        if (cursor !== undefined) {
          this.lead(textEditor, cursor, TextEditorRevealType.InCenterIfOutsideViewport);
        }
      }),
      window.onDidChangeVisibleTextEditors(() => {
        const editor = window.activeTextEditor;
        if (editor !== undefined) {
          this.lead(editor, editor.selection.active, TextEditorRevealType.InCenterIfOutsideViewport);
        }
      }),
    ];
  }

  dispose(): void {
    this.listeners.forEach((listener) => {
      listener.dispose();
    });
    this.mark.dispose();
  }

  private lead(leader: TextEditor, position: Position, reveal: TextEditorRevealType): void {
    const others = window.visibleTextEditors.filter((editor) => editor !== leader);
    const isView = viewOf(leader.document.uri) !== undefined;
    const isTemplate = leader.document.languageId.startsWith("ckwatch-");
    const linked = isView || (isTemplate && others.some((editor) => viewOf(editor.document.uri) !== undefined));
    const wanted = workspace.getConfiguration("ckwatch").get<boolean>("linkedScrolling", true);
    if (leader !== window.activeTextEditor || !linked || !wanted || this.server.state !== "running") {
      return;
    }
    this.latest.run(() =>
      isView ? this.toTemplate(leader, position, others, reveal) : this.toViews(leader, position, others, reveal),
    );
  }

  private async toViews(leader: TextEditor, position: Position, others: readonly TextEditor[], reveal: TextEditorRevealType): Promise<void> {
    for (const editor of others) {
      const view = viewOf(editor.document.uri);
      if (view !== undefined) {
        const uri = this.server.written(leader.document.uri);
        const place = await this.ask("ckwatch.toGenerated", { uri, position: plain(position), ...view });
        this.follow(editor, place, reveal);
      }
    }
  }

  private async toTemplate(leader: TextEditor, position: Position, others: readonly TextEditor[], reveal: TextEditorRevealType): Promise<void> {
    const uri = this.server.written(leader.document.uri);
    const place = await this.ask("ckwatch.toTemplate", { uri, position: plain(position) });
    for (const editor of others) {
      if (viewOf(editor.document.uri) === undefined) {
        this.follow(editor, place, reveal);
      }
    }
  }

  private async ask(command: string, argument: { uri: string; [key: string]: unknown }): Promise<Place | null> {
    return (await this.server.execute(command, argument)) as Place | null;
  }

  private follow(editor: TextEditor, place: Place | null, reveal: TextEditorRevealType): void {
    if (place === null || this.server.uri(place.uri)?.toString() !== editor.document.uri.toString()) {
      editor.setDecorations(this.mark, []);
      return;
    }
    const range: Range = asRange(place.range);
    editor.setDecorations(this.mark, [range]);
    editor.revealRange(range, reveal);
  }
}

function plain({ line, character }: Position): { line: number; character: number } {
  return { line, character };
}
