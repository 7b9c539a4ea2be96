/**
 * Units as tests: a run builds and times them.
 *
 * VS Code's Testing API brings what lenses do not: buttons in the gutter that stay where the instance is, runs of several
 * or of those that failed, keys for running again, and a list of past runs.
 */

import {
  Location,
  TestMessage,
  TestRunProfileKind,
  Uri,
  tests,
  type CancellationToken,
  type Disposable,
  type TestController,
  type TestItem,
  type TestRun,
  type TestRunRequest,
} from "vscode";
import { asRange, type Server } from "./server";
import { isBusy, kernelsOf, nameIn, stateOf, type Unit } from "./units";
import type { WorkspaceUnits } from "./workspaceUnits";

export class UnitTests implements Disposable {
  private readonly controller: TestController = tests.createTestController("ckwatch", "ckwatch");
  private readonly listener: Disposable;

  constructor(
    private readonly server: Server,
    private readonly units: WorkspaceUnits,
  ) {
    this.controller.createRunProfile("Build and Time", TestRunProfileKind.Run, (request, token) => this.run(request, token), true);
    this.listener = units.onDidChange((all) => {
      this.show(all);
    });
  }

  dispose(): void {
    this.listener.dispose();
    this.controller.dispose();
  }

  private show(all: readonly Unit[]): void {
    this.controller.items.replace(
      kernelsOf(all).map((kernel) => {
        const item = this.controller.createTestItem(`${kernel.folder}\0${kernel.name}`, kernel.name, Uri.parse(kernel.uri));
        item.children.replace(
          kernel.units.map((unit) => {
            const child = this.controller.createTestItem(keyOf(unit), nameIn(kernel, unit), Uri.parse(unit.uri));
            child.range = asRange(unit.range);
            child.description = unit.text;
            return child;
          }),
        );
        return item;
      }),
    );
  }

  private async run(request: TestRunRequest, token: CancellationToken): Promise<void> {
    const run = this.controller.createTestRun(request);
    const roots = request.include ?? [...this.controller.items].map(([, item]) => item);
    const items = roots.flatMap(leaves).filter((item) => request.exclude?.includes(item) !== true);
    items.forEach((item) => {
      run.enqueued(item);
    });
    try {
      await Promise.all(items.map((item) => this.runOne(run, item, token)));
    } finally {
      run.end();
    }
  }

  private async runOne(run: TestRun, item: TestItem, token: CancellationToken): Promise<void> {
    const unit = this.find(item);
    if (unit === undefined) {
      run.skipped(item);
      return;
    }
    const about = { unit: unit.id, uri: unit.uri };
    const cancelling = token.onCancellationRequested(() => void this.server.execute("ckwatch.cancel", about));
    const began = Date.now();
    run.started(item);
    try {
      await this.server.execute("ckwatch.run", about);
      this.tell(run, item, await this.settled(item, token), Date.now() - began);
    } catch (reason) {
      run.errored(item, new TestMessage(reason instanceof Error ? reason.message : String(reason)));
    } finally {
      cancelling.dispose();
    }
  }

  private tell(run: TestRun, item: TestItem, unit: Unit | undefined, duration: number): void {
    const state = unit === undefined ? "none" : stateOf(unit);
    if (unit === undefined || state === "none" || state === "stale" || isBusy(unit)) {
      run.skipped(item);
      return;
    }
    const text = unit.text === "" ? unit.id : `${unit.id}  ${unit.text}`;
    run.appendOutput(`${text}\r\n`, undefined, item);
    if (state === "built") {
      run.passed(item, duration);
      return;
    }
    const message = new TestMessage(unit.errors > 0 ? `${unit.errors} errors, listed among the problems` : text);
    message.location = new Location(Uri.parse(unit.uri), asRange(unit.range));
    run[state === "failed" ? "failed" : "errored"](item, message, duration);
  }

  /** The unit as soon as nothing is done with it any more; undefined when it is gone. */
  private async settled(item: TestItem, token: CancellationToken): Promise<Unit | undefined> {
    const listeners: Disposable[] = [];
    try {
      return await new Promise((resolve) => {
        const look = (): void => {
          const unit = this.find(item);
          if (token.isCancellationRequested || unit === undefined || !isBusy(unit)) {
            resolve(unit);
          }
        };
        listeners.push(this.units.onDidChange(look), token.onCancellationRequested(look));
        this.units.refresh();
      });
    } finally {
      listeners.forEach((listener) => {
        listener.dispose();
      });
    }
  }

  private find(item: TestItem): Unit | undefined {
    return this.units.all.find((unit) => keyOf(unit) === item.id);
  }
}

function keyOf(unit: Unit): string {
  return `${unit.folder}\0${unit.id}`;
}

function leaves(item: TestItem): TestItem[] {
  return item.children.size === 0 ? [item] : [...item.children].flatMap(([, child]) => leaves(child));
}
