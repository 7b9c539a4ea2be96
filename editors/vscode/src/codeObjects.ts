/**
 * Files with code objects, shown as the server's text of their figures and instructions.
 *
 * A custom editor is VS Code's only way to take over a binary file. It makes way for a text document, which has what
 * documents have: hovers, folds, search.
 */

import { Uri, window, workspace, type CustomDocument, type CustomReadonlyEditorProvider, type Disposable, type WebviewPanel } from "vscode";
import type { Server } from "./server";
import { ofCode } from "./virtual";

const VIEW_TYPES = ["ckwatch.codeObject", "ckwatch.hostObject"];

class CodeObjects implements CustomReadonlyEditorProvider {
  constructor(private readonly server: Server) {}

  openCustomDocument(uri: Uri): CustomDocument {
    return {
      uri,
      dispose: () => {
        // nothing is kept
      },
    };
  }

  async resolveCustomEditor({ uri }: CustomDocument, panel: WebviewPanel): Promise<void> {
    const shown = Uri.from(ofCode(uri.path));
    try {
      await started(this.server);
      await this.server.execute("ckwatch.document", { uri: this.server.written(shown) });
      const document = await workspace.openTextDocument(shown);
      await window.showTextDocument(document, panel.viewColumn === undefined ? {} : { viewColumn: panel.viewColumn });
      panel.dispose();
    } catch (reason) {
      const text = reason instanceof Error ? reason.message : String(reason);
      panel.webview.html = `<p>${text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</p>`;
    }
  }
}

/** Waits while the server starts: opening such a file may be what starts it. */
async function started(server: Server): Promise<void> {
  while (server.state === "starting") {
    await new Promise<void>((resolve) => {
      const listener = server.onDidChangeState(() => {
        listener.dispose();
        resolve();
      });
    });
  }
}

export function showCodeObjects(server: Server): Disposable[] {
  const editors = new CodeObjects(server);
  return VIEW_TYPES.map((type) => window.registerCustomEditorProvider(type, editors));
}
