/** Wires the parts together. Everything shown comes from `ckwatch lsp`. */

import { window, type ExtensionContext } from "vscode";
import { showCodeObjects } from "./codeObjects";
import { registerCommands } from "./commands";
import { Cursor } from "./cursor";
import { Headers } from "./headers";
import { Heat } from "./heat";
import { recogniseIncludedTemplates } from "./includedTemplates";
import { KernelTree } from "./kernelTree";
import { Server } from "./server";
import { StatusBar } from "./statusBar";
import { UnitTests } from "./unitTests";
import { LinkedViews, showView } from "./views";
import { WorkspaceUnits } from "./workspaceUnits";

let server: Server | undefined;

export function activate(context: ExtensionContext): void {
  server = new Server(showView);
  const units = new WorkspaceUnits(server);
  const tree = new KernelTree(units);
  context.subscriptions.push(
    server,
    units,
    tree,
    window.registerTreeDataProvider("ckwatch.kernels", tree),
    new UnitTests(server, units),
    new StatusBar(server),
    new LinkedViews(server),
    new Headers(server),
    new Heat(server),
    new Cursor(server),
    recogniseIncludedTemplates(),
    ...showCodeObjects(server),
    ...registerCommands(server),
  );
  void server.start();
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
