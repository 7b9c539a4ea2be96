/** What the language server tells of a unit (`ckwatch.units`), and how it is shown. */

export interface Position {
  readonly line: number;
  readonly character: number;
}

export interface Range {
  readonly start: Position;
  readonly end: Position;
}

export interface Unit {
  readonly folder: string;
  readonly kernel: string;
  readonly kernelUri: string;
  readonly instance: string;
  readonly arch: string;
  /** `KERNEL/INSTANCE@ARCH` */
  readonly id: string;
  readonly uri: string;
  readonly range: Range;
  readonly phase: "waiting" | "rendering" | "looking" | "idle" | "queued" | "compiling" | "done";
  readonly outcome: "built" | "failed" | "faulted" | "checked" | null;
  readonly fresh: boolean;
  /** One line: a timing, or resources. */
  readonly text: string;
  /** Whether `text` is up to date. */
  readonly standing: string | null;
  readonly errors: number;
  readonly warnings: number;
  readonly active: boolean;
}

/** The units of an answer; what is none is left out. */
export function readUnits(answer: unknown): Unit[] {
  return Array.isArray(answer) ? answer.filter(isUnit) : [];
}

function isUnit(value: unknown): value is Unit {
  if (typeof value !== "object" || value === null) {
    return false;
  }
  const unit = value as Record<string, unknown>;
  return ["folder", "kernel", "kernelUri", "instance", "arch", "id", "uri", "phase"].every((key) => typeof unit[key] === "string");
}

export interface Kernel {
  readonly folder: string;
  readonly name: string;
  readonly uri: string;
  readonly units: readonly Unit[];
}

/** Units by folder and kernel, in the order in which they came. */
export function kernelsOf(units: readonly Unit[]): Kernel[] {
  const kernels = new Map<string, Kernel & { units: Unit[] }>();
  for (const unit of units) {
    const key = `${unit.folder}\0${unit.kernel}`;
    const kernel = kernels.get(key);
    if (kernel === undefined) {
      kernels.set(key, { folder: unit.folder, name: unit.kernel, uri: unit.kernelUri, units: [unit] });
    } else {
      kernel.units.push(unit);
    }
  }
  return [...kernels.values()];
}

/** A unit's name among those of its kernel: the arch only where there are several. */
export function nameIn(kernel: Kernel, unit: Unit): string {
  return kernel.units.some((other) => other.arch !== unit.arch) ? `${unit.instance}@${unit.arch}` : unit.instance;
}

export type State = "running" | "queued" | "built" | "failed" | "faulted" | "stale" | "none";

export function stateOf(unit: Unit): State {
  if (unit.phase === "compiling" || unit.phase === "rendering" || unit.standing === "running") {
    return "running";
  }
  if (unit.phase === "queued" || unit.phase === "waiting" || unit.phase === "looking") {
    return "queued";
  }
  if (unit.errors > 0 || unit.outcome === "failed") {
    return "failed";
  }
  if (unit.outcome === null) {
    return "none";
  }
  if (!unit.fresh) {
    return "stale";
  }
  return unit.outcome === "faulted" ? "faulted" : "built";
}

export function isBusy(unit: Unit): boolean {
  const state = stateOf(unit);
  return state === "running" || state === "queued";
}

/** Icon and theme colour of each state. */
export const ICONS: Readonly<Record<State, readonly [icon: string, colour?: string]>> = {
  running: ["sync~spin"],
  queued: ["watch"],
  built: ["pass", "testing.iconPassed"],
  failed: ["error", "testing.iconFailed"],
  faulted: ["warning", "testing.iconErrored"],
  stale: ["history"],
  none: ["circle-outline"],
};

/** What stands behind a unit's name. */
export function descriptionOf(unit: Unit): string {
  const counts = [counted(unit.errors, "error"), counted(unit.warnings, "warning")].filter((text) => text !== "");
  return [unit.active ? "●" : "", unit.text, ...counts].filter((text) => text !== "").join("  ");
}

function counted(count: number, word: string): string {
  return count === 0 ? "" : `${count} ${word}${count === 1 ? "" : "s"}`;
}
