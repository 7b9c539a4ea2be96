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
import type { Argument } from "./arguments";
import { asRange } from "./ranges";
import type { Server } from "./server";
import { isBusy, kernelsOf, nameIn, stateOf, type Unit } from "./units";
import type { WorkspaceUnits } from "./workspaceUnits";

interface Job {
  readonly about: Argument;
  readonly items: readonly TestItem[];
}

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
        const item = this.controller.createTestItem(`${kernel.folder} ${kernel.name}`, kernel.name, Uri.parse(kernel.uri));
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
    const asked = request.include ?? [...this.controller.items].map(([, item]) => item);
    const jobs = asked.flatMap((item) => this.jobsOf(item, request.exclude ?? []));
    jobs.flatMap((job) => job.items).forEach((item) => {
      run.enqueued(item);
    });
    try {
      await Promise.all(jobs.map((job) => this.runOne(run, job, token)));
    } finally {
      run.end();
    }
  }

  /** A whole kernel is one job, so that the server tells of its progress as one. */
  private jobsOf(item: TestItem, excluded: readonly TestItem[]): Job[] {
    const items = [...item.children].map(([, child]) => child).filter((child) => !excluded.includes(child));
    if (excluded.includes(item)) {
      return [];
    }
    if (item.children.size === 0) {
      const unit = this.find(item);
      return unit === undefined ? [] : [{ about: { unit: unit.id, uri: unit.uri }, items: [item] }];
    }
    return items.length === item.children.size && item.uri !== undefined
      ? [{ about: { unit: item.label, uri: item.uri.toString() }, items }]
      : items.flatMap((child) => this.jobsOf(child, []));
  }

  private async runOne(run: TestRun, { about, items }: Job, token: CancellationToken): Promise<void> {
    const cancelling = token.onCancellationRequested(() => void this.server.execute("ckwatch.cancel", about));
    const began = Date.now();
    items.forEach((item) => {
      run.started(item);
    });
    try {
      // answered when the work is done
      await this.server.execute("ckwatch.run", about);
      await this.units.refreshed();
      items.forEach((item) => {
        this.tell(run, item, Date.now() - began);
      });
    } catch (reason) {
      items.forEach((item) => {
        run.errored(item, new TestMessage(reason instanceof Error ? reason.message : String(reason)));
      });
    } finally {
      cancelling.dispose();
    }
  }

  private tell(run: TestRun, item: TestItem, duration: number): void {
    const unit = this.find(item);
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

  private find(item: TestItem): Unit | undefined {
    return this.units.all.find((unit) => keyOf(unit) === item.id);
  }
}

/** VS Code keeps the null character for itself. */
function keyOf(unit: Unit): string {
  return `${unit.folder} ${unit.id}`;
}
