/** The language client: what VS Code's own ways need, on top of vscode-languageclient. */

import { Uri, workspace, type LogOutputChannel } from "vscode";
import {
  DidChangeConfigurationNotification,
  ExecuteCommandRequest,
  ShowMessageRequest,
  type ClientCapabilities,
  type DocumentSelector,
  type DynamicFeature,
  type LanguageClientOptions,
  type ShowDocumentParams,
  type StaticFeature,
} from "vscode-languageclient";
import { LanguageClient } from "vscode-languageclient/node";
import { SERVER_SETTINGS } from "./contract";
import type { Executable } from "./executable";
import { ask } from "./questions";
import { OPTIONS } from "./search";
import { SCHEME, written } from "./virtual";

const SELECTOR: DocumentSelector = [
  { scheme: "file", language: "ckwatch-template" },
  { scheme: "file", language: "ckwatch-kernel" },
  { scheme: "file", pattern: "**/*.j2" },
  { scheme: "file", pattern: "**/*.kernel.toml" },
  { scheme: "file", pattern: "**/ckwatch.toml" },
  { scheme: SCHEME },
];

/** The server's notifications beyond LSP. */
class Extensions implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    capabilities.experimental = {
      ...(capabilities.experimental as object | undefined),
      serverStatusNotification: true,
      ckwatchUnits: true,
      ckwatchLineHeat: true,
    };
    capabilities.workspace = { ...capabilities.workspace, executeCommand: { dynamicRegistration: false } };
  }

  initialize(): void {
    // nothing depends on what the server can do
  }

  getState(): { kind: "static" } {
    return { kind: "static" };
  }

  clear(): void {
    // nothing is kept
  }
}

export class CkwatchClient extends LanguageClient {
  constructor(executable: Executable, output: LogOutputChannel, showDocument: (uri: Uri, takeFocus: boolean) => Promise<void>) {
    const run = { command: executable.command, args: [...executable.args, "lsp"], options: OPTIONS };
    super("ckwatch", "ckwatch", run, clientOptions(output, showDocument));
    super.registerFeature(new Extensions());
    this.onRequest(ShowMessageRequest.type, ask);
  }

  /** The extension's own commands go to the server; those of the library would have the same names. */
  override registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
    if ("registrationType" in feature && feature.registrationType.method === ExecuteCommandRequest.method) {
      return;
    }
    super.registerFeature(feature);
  }

  /** Sends the settings of the user as they are now. */
  async tellSettings(): Promise<void> {
    await this.sendNotification(DidChangeConfigurationNotification.type, { settings: { ckwatch: serverSettings() } });
  }

  /** More documents, in which the server answers as in those that it was started for. */
  serve(selector: DocumentSelector): void {
    const given = this.initializeResult?.capabilities;
    if (given !== undefined) {
      // what the library makes of the capabilities before it gives them to its features
      const capabilities = { ...given, resolvedTextDocumentSync: given.textDocumentSync };
      for (const method of IN_FILES) {
        (this as Features).getFeature(method)?.initialize(capabilities, selector);
      }
    }
  }
}

/** The library's features by their methods; its own type knows them one by one. */
interface Features {
  getFeature(method: string): StaticFeature | undefined;
}

/** What the server does in a file of which it is known later that it is the server's. */
const IN_FILES = [
  ...["didOpen", "didChange", "didSave", "didClose", "completion", "hover", "signatureHelp", "definition", "typeDefinition"],
  ...["implementation", "references", "documentHighlight", "documentSymbol", "prepareCallHierarchy", "semanticTokens"],
  ...["inlayHint", "rename", "codeAction"],
].map((name) => `textDocument/${name}`);

function clientOptions(
  output: LogOutputChannel,
  showDocument: (uri: Uri, takeFocus: boolean) => Promise<void>,
): LanguageClientOptions {
  return {
    documentSelector: SELECTOR,
    outputChannel: output,
    initializationOptions: serverSettings,
    diagnosticPullOptions: { onChange: true, onSave: true },
    markdown: { supportThemeIcons: true },
    uriConverters: {
      code2Protocol: (uri) => (uri.scheme === SCHEME ? written(uri) : uri.toString()),
      protocol2Code: (value) => Uri.parse(value),
    },
    middleware: {
      workspace: {
        configuration: (params) => params.items.map((item) => (item.section === "ckwatch" ? serverSettings() : null)),
      },
      window: {
        showDocument: async (params: ShowDocumentParams, token, next) => {
          const uri = Uri.parse(params.uri);
          if (uri.scheme !== SCHEME) {
            return next(params, token);
          }
          await showDocument(uri, params.takeFocus === true);
          return { success: true };
        },
      },
    },
  };
}

function serverSettings(): Record<string, unknown> {
  const section = workspace.getConfiguration("ckwatch");
  return Object.fromEntries(SERVER_SETTINGS.map((key) => [key, section.get(key)]));
}
