/** What the status bar shows of the workspaces' daemons (`experimental/serverStatus`). */

export interface ServerStatus {
  readonly health: "ok" | "warning" | "error";
  /** Nothing is being done. */
  readonly quiescent: boolean;
  readonly message: string;
  readonly folder: string;
}

export interface Shown {
  readonly text: string;
  readonly tooltip: string;
  readonly health: ServerStatus["health"];
}

const HEALTHS = ["ok", "warning", "error"] as const;
const ICONS = { ok: "check", warning: "warning", error: "error" } as const;

/** All folders as one: the worst health, busy if one is, and a line of the tooltip for each. */
export function shownStatus(statuses: readonly ServerStatus[]): Shown {
  const health = HEALTHS[Math.max(0, ...statuses.map((status) => HEALTHS.indexOf(status.health)))] ?? "ok";
  const busy = statuses.find((status) => !status.quiescent);
  const worst = statuses.find((status) => status.health === health);
  const first = health === "ok" ? (busy ?? worst) : worst;
  const icon = busy !== undefined && health === "ok" ? "sync~spin" : ICONS[health];
  const message = first?.message.split("\n", 1)[0] ?? "";
  return {
    text: `$(${icon}) ckwatch${message === "" ? "" : `: ${shortened(message)}`}`,
    tooltip: statuses.map((status) => (statuses.length > 1 ? `${status.folder}: ${status.message}` : status.message)).join("\n"),
    health,
  };
}

const WIDTH = 48;

function shortened(message: string): string {
  return message.length > WIDTH ? `${message.slice(0, WIDTH - 1)}…` : message;
}
