/** The units of all folders, as the server last told them. */

import { EventEmitter, type Disposable } from "vscode";
import { Latest } from "./latest";
import type { Server } from "./server";
import { readUnits, type Unit } from "./units";

export class WorkspaceUnits implements Disposable {
  private readonly changes = new EventEmitter<readonly Unit[]>();
  readonly onDidChange = this.changes.event;
  private readonly latest: Latest;
  private readonly listeners: Disposable[];
  private known: readonly Unit[] = [];

  constructor(private readonly server: Server) {
    this.latest = new Latest((reason) => {
      server.output.warn(`ckwatch.units: ${String(reason)}`);
    });
    this.listeners = [
      server.onUnitsChanged(() => {
        this.refresh();
      }),
      server.onDidChangeState((state) => {
        if (state === "running") {
          this.refresh();
        } else {
          this.become([]);
        }
      }),
    ];
  }

  get all(): readonly Unit[] {
    return this.known;
  }

  refresh(): void {
    this.latest.run(() => this.refreshed());
  }

  /** Asks the server again; throws what it answers instead of units. */
  async refreshed(): Promise<void> {
    if (this.server.state === "running") {
      this.become(readUnits(await this.server.execute("ckwatch.units", {})));
    }
  }

  dispose(): void {
    this.listeners.forEach((listener) => {
      listener.dispose();
    });
    this.changes.dispose();
  }

  private become(units: readonly Unit[]): void {
    this.known = units;
    this.changes.fire(units);
  }
}
