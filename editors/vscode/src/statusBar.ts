/** The status bar's item: what the daemon does; a click opens its log. */

import { StatusBarAlignment, ThemeColor, window, workspace, type Disposable } from "vscode";
import type { Server, ServerState } from "./server";
import { shownStatus, type ServerStatus, type Shown } from "./status";

const STATES: Readonly<Record<ServerState, Shown>> = {
  untrusted: { text: "$(shield) ckwatch", tooltip: "The folder is not trusted: files are highlighted, nothing is run.", health: "ok" },
  starting: { text: "$(sync~spin) ckwatch", tooltip: "ckwatch is starting.", health: "ok" },
  running: { text: "$(check) ckwatch", tooltip: "ckwatch", health: "ok" },
  missing: { text: "$(error) ckwatch", tooltip: "The ckwatch command was not found. Click to install it.", health: "error" },
  stopped: { text: "$(circle-slash) ckwatch", tooltip: "ckwatch does not run.", health: "warning" },
};

const COLOURS = {
  ok: undefined,
  warning: new ThemeColor("statusBarItem.warningBackground"),
  error: new ThemeColor("statusBarItem.errorBackground"),
} as const;

const COMMANDS: Readonly<Record<ServerState, string>> = {
  untrusted: "workbench.trust.manage",
  starting: "ckwatch.showOutput",
  running: "ckwatch.showLog",
  missing: "ckwatch.install",
  stopped: "ckwatch.showOutput",
};

export class StatusBar implements Disposable {
  private readonly item = window.createStatusBarItem("ckwatch.status", StatusBarAlignment.Left);
  private readonly statuses = new Map<string, ServerStatus>();
  private readonly listeners: Disposable[];

  constructor(private readonly server: Server) {
    this.item.name = "ckwatch";
    this.listeners = [
      server.onDidChangeState((state) => {
        if (state !== "running") {
          this.statuses.clear();
        }
        this.show();
      }),
      server.onStatus((status) => {
        this.statuses.set(status.folder, status);
        this.show();
      }),
      workspace.onDidChangeWorkspaceFolders(({ removed }) => {
        removed.forEach((folder) => {
          this.statuses.delete(folder.uri.fsPath);
          this.statuses.delete(folder.uri.toString());
        });
        this.show();
      }),
    ];
    this.show();
    this.item.show();
  }

  dispose(): void {
    this.listeners.forEach((listener) => {
      listener.dispose();
    });
    this.item.dispose();
  }

  private show(): void {
    const state = this.server.state;
    const statuses = [...this.statuses.values()];
    const { text, tooltip, health } = state === "running" && statuses.length > 0 ? shownStatus(statuses) : STATES[state];
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.backgroundColor = COLOURS[health];
    this.item.command = COMMANDS[state];
  }
}
