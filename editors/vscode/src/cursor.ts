/** Tells the server the line of the cursor: the instance there has lenses. */

import { window, type Disposable, type TextEditor } from "vscode";
import type { Server } from "./server";

export class Cursor implements Disposable {
  private told = "";
  private readonly listeners: Disposable[];

  constructor(private readonly server: Server) {
    const again = (): void => {
      this.told = "";
      this.tell(window.activeTextEditor);
    };
    this.listeners = [
      window.onDidChangeTextEditorSelection(({ textEditor }) => {
        this.tell(textEditor);
      }),
      window.onDidChangeActiveTextEditor((editor) => {
        this.tell(editor);
      }),
      // a server that has just started, or did not know the document yet, is told once more
      server.onDidChangeState(again),
      server.onUnitsChanged(again),
    ];
  }

  dispose(): void {
    this.listeners.forEach((listener) => {
      listener.dispose();
    });
  }

  private tell(editor: TextEditor | undefined): void {
    if (editor === undefined || editor !== window.activeTextEditor || !editor.document.languageId.startsWith("ckwatch")) {
      return;
    }
    const uri = this.server.written(editor.document.uri);
    const { line, character } = editor.selection.active;
    if (this.told !== `${uri}:${String(line)}`) {
      this.told = `${uri}:${String(line)}`;
      this.server.notify("ckwatch/cursor", { uri, position: { line, character } });
    }
  }
}
