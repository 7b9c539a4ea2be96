/** The language server's life: found, started, restarted, and not at all in a folder that is not trusted. */

import { EventEmitter, commands, window, workspace, type Disposable, type LogOutputChannel, type Uri } from "vscode";
import type { DocumentSelector, State } from "vscode-languageclient";
import type { Argument } from "./arguments";
import type { CkwatchClient } from "./client";
import type { LineHeat } from "./heat";
import { findExecutable, offerInstallation } from "./search";
import type { ServerStatus } from "./status";

export type ServerState = "untrusted" | "starting" | "running" | "missing" | "stopped";

export class Server implements Disposable {
  readonly output: LogOutputChannel = window.createOutputChannel("ckwatch", { log: true });
  private readonly changes = new EventEmitter<ServerState>();
  private readonly statuses = new EventEmitter<ServerStatus>();
  private readonly unitChanges = new EventEmitter<undefined>();
  private readonly heat = new EventEmitter<LineHeat>();
  readonly onDidChangeState = this.changes.event;
  readonly onStatus = this.statuses.event;
  readonly onUnitsChanged = this.unitChanges.event;
  readonly onLineHeat = this.heat.event;
  private client: CkwatchClient | undefined;
  private current: ServerState = "stopped";
  private readonly listeners: Disposable[];

  /** `showView` shows a virtual document beside the active editor. */
  constructor(private readonly showView: (uri: Uri, takeFocus: boolean) => Promise<void>) {
    this.listeners = [
      workspace.onDidGrantWorkspaceTrust(() => void this.start()),
      workspace.onDidChangeConfiguration(async (event) => {
        if (event.affectsConfiguration("ckwatch.command")) {
          await this.restart();
        } else if (event.affectsConfiguration("ckwatch") && this.client?.isRunning() === true) {
          await this.client.tellSettings();
        }
      }),
    ];
  }

  get state(): ServerState {
    return this.current;
  }

  /** Starts the server unless it runs; where the command is missing, offers to install it. */
  async start(): Promise<void> {
    if (this.current === "starting" || this.current === "running") {
      return;
    }
    if (!workspace.isTrusted) {
      this.become("untrusted");
      return;
    }
    this.become("starting");
    const executable = await findExecutable((line) => {
      this.output.info(line);
    });
    if (executable === undefined) {
      this.become("missing");
      void offerInstallation(() => this.start());
      return;
    }
    const { CkwatchClient } = await import("./client"); // half of the activation: it is loaded when it is needed
    const client = new CkwatchClient(executable, this.output, this.showView);
    this.client = client;
    client.onNotification("experimental/serverStatus", (status: ServerStatus) => {
      this.statuses.fire(status);
    });
    client.onNotification("ckwatch/unitsChanged", () => {
      this.unitChanges.fire(undefined);
    });
    client.onNotification("ckwatch/lineHeat", (heat: LineHeat) => {
      this.heat.fire(heat);
    });
    client.onDidChangeState(({ newState }) => {
      if (client === this.client) {
        this.become(STATES[newState]);
      }
    });
    try {
      await client.start();
    } catch (reason) {
      this.output.error(String(reason));
      this.become("stopped");
    }
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    try {
      await client?.dispose();
    } catch (reason) {
      this.output.warn(String(reason));
    }
    this.become("stopped");
  }

  /** Has the server execute a command; throws what it answers instead of a result. */
  async execute(command: string, argument: Argument): Promise<unknown> {
    await this.start();
    const client = this.client;
    if (this.current !== "running" || client === undefined) {
      throw new Error(REASONS[this.current]);
    }
    return client.sendRequest("workspace/executeCommand", { command, arguments: [argument] });
  }

  /** A request of ckwatch's own; throws where the server does not run. */
  async ask(method: string, params: object): Promise<unknown> {
    if (this.client === undefined) {
      throw new Error(REASONS[this.current]);
    }
    return this.client.sendRequest(method, params);
  }

  /** A notification of ckwatch's own, to a server that runs. */
  notify(method: string, params: object): void {
    if (this.client?.isRunning() === true) {
      void this.client.sendNotification(method, params);
    }
  }

  /** More documents that the server answers in, until it stops. */
  serve(selector: DocumentSelector): void {
    this.client?.serve(selector);
  }

  uri(value: string): Uri | undefined {
    return this.client?.protocol2CodeConverter.asUri(value);
  }

  written(uri: Uri): string {
    return this.client?.code2ProtocolConverter.asUri(uri) ?? uri.toString();
  }

  dispose(): void {
    this.listeners.forEach((listener) => {
      listener.dispose();
    });
    this.changes.dispose();
    this.statuses.dispose();
    this.unitChanges.dispose();
    this.heat.dispose();
    this.output.dispose();
  }

  private become(state: ServerState): void {
    this.current = state;
    void commands.executeCommand("setContext", "ckwatch.state", state);
    this.changes.fire(state);
  }
}

/** By the numbers of `State`, whose values would load the library. */
const STATES: Readonly<Record<State, ServerState>> = { 1: "stopped", 2: "running", 3: "starting", 4: "stopped" };

const REASONS: Readonly<Record<ServerState, string>> = {
  untrusted: "The folder is not trusted: nothing is run.",
  starting: "ckwatch is starting.",
  running: "",
  missing: "The ckwatch command was not found.",
  stopped: "ckwatch does not run. Its output says why.",
};
