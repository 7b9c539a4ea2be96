/** The tree of kernels and instances, each with its state and its figures. */

import { basename } from "node:path";
import {
  EventEmitter,
  MarkdownString,
  ThemeColor,
  ThemeIcon,
  TreeItem,
  TreeItemCollapsibleState,
  Uri,
  type Disposable,
  type TreeDataProvider,
} from "vscode";
import type { About } from "./arguments";
import { asRange } from "./ranges";
import { ICONS, descriptionOf, isBusy, kernelsOf, nameIn, stateOf, type Kernel, type Unit } from "./units";
import type { WorkspaceUnits } from "./workspaceUnits";

type Node = KernelNode | UnitNode;

class KernelNode extends TreeItem implements About {
  readonly about: About["about"];

  constructor(
    readonly kernel: Kernel,
    folders: number,
  ) {
    super(kernel.name, TreeItemCollapsibleState.Expanded);
    this.id = `${kernel.folder}\0${kernel.name}`;
    this.about = { uri: kernel.uri, unit: kernel.name };
    this.contextValue = "kernel";
    this.iconPath = new ThemeIcon("symbol-class");
    const folder = Uri.parse(kernel.folder).fsPath;
    const failed = kernel.units.filter((unit) => stateOf(unit) === "failed").length;
    this.description = [
      ...(folders > 1 ? [basename(folder)] : []),
      `${kernel.units.length} ${kernel.units.length === 1 ? "unit" : "units"}`,
      ...(failed > 0 ? [`${failed} failed`] : []),
    ].join(", ");
    this.tooltip = folder;
  }
}

class UnitNode extends TreeItem implements About {
  readonly about: About["about"];

  constructor(kernel: Kernel, unit: Unit) {
    super(nameIn(kernel, unit), TreeItemCollapsibleState.None);
    this.id = `${unit.folder}\0${unit.id}`;
    this.about = { uri: unit.uri, unit: unit.id };
    this.contextValue = isBusy(unit) ? "unit running" : "unit idle";
    const [icon, colour] = ICONS[stateOf(unit)];
    this.iconPath = new ThemeIcon(icon, colour === undefined ? undefined : new ThemeColor(colour));
    this.description = descriptionOf(unit);
    this.tooltip = new MarkdownString()
      .appendMarkdown(`**${unit.id.replaceAll("_", "\\_")}**\n\n`)
      .appendText([unit.text, unit.standing ?? "", `${unit.phase}${unit.outcome === null ? "" : `, ${unit.outcome}`}`].filter((line) => line !== "").join("\n"));
    this.command = {
      command: "vscode.open",
      title: "Open",
      arguments: [Uri.parse(unit.uri), { selection: asRange(unit.range) }],
    };
  }
}

export class KernelTree implements TreeDataProvider<Node>, Disposable {
  private readonly changes = new EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changes.event;
  private readonly listener: Disposable;

  constructor(private readonly units: WorkspaceUnits) {
    this.listener = units.onDidChange(() => {
      this.changes.fire(undefined);
    });
  }

  getTreeItem(node: Node): TreeItem {
    return node;
  }

  getChildren(node?: Node): Node[] {
    if (node === undefined) {
      const kernels = kernelsOf(this.units.all);
      const folders = new Set(kernels.map((kernel) => kernel.folder)).size;
      return kernels.map((kernel) => new KernelNode(kernel, folders));
    }
    return node instanceof KernelNode ? node.kernel.units.map((unit) => new UnitNode(node.kernel, unit)) : [];
  }

  dispose(): void {
    this.listener.dispose();
    this.changes.dispose();
  }
}
