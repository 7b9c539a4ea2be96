/** Headers that the C++ of templates includes: the server answers in them as in templates, and nobody changes them here. */

import { commands, window, workspace, type Disposable, type TextDocument, type TextEditor } from "vscode";
import type { Server } from "./server";

interface Header {
  readonly header: boolean;
  readonly readOnly: boolean;
}

export class Headers implements Disposable {
  /** Paths of files that the server answers in. */
  private readonly served = new Set<string>();
  /** Paths of files that were made read-only; whoever makes one writable again is not contradicted. */
  private readonly locked = new Set<string>();
  private readonly listeners: Disposable[];

  constructor(private readonly server: Server) {
    this.listeners = [
      window.onDidChangeActiveTextEditor((editor) => void this.look(editor)),
      server.onDidChangeState((state) => {
        if (state === "running") {
          void this.look(window.activeTextEditor);
        } else {
          this.served.clear();
        }
      }),
      // which folders have headers is known with the first units
      server.onUnitsChanged(() => void this.look(window.activeTextEditor)),
    ];
  }

  dispose(): void {
    this.listeners.forEach((listener) => {
      listener.dispose();
    });
  }

  private async look(editor: TextEditor | undefined): Promise<void> {
    const document = editor?.document;
    if (document?.uri.scheme !== "file" || this.server.state !== "running" || this.served.has(document.uri.path)) {
      return;
    }
    try {
      const { header, readOnly } = (await this.server.ask("ckwatch/isHeader", { uri: this.server.written(document.uri) })) as Header;
      if (header && !this.served.has(document.uri.path)) {
        this.served.add(document.uri.path);
        this.server.serve([{ scheme: "file", pattern: document.uri.fsPath }]);
      }
      if (readOnly) {
        await this.lock(document);
      }
    } catch (reason) {
      this.server.output.debug(`headers: ${String(reason)}`);
    }
  }

  /** Files of an open folder are the user's own. */
  private async lock(document: TextDocument): Promise<void> {
    const foreign = workspace.getWorkspaceFolder(document.uri) === undefined;
    if (foreign && window.activeTextEditor?.document === document && !this.locked.has(document.uri.path)) {
      this.locked.add(document.uri.path);
      await commands.executeCommand("workbench.action.files.setActiveEditorReadonlyInSession");
    }
  }
}
