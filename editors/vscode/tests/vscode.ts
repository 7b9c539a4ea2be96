/** Stands for the editor in tests: as much of VS Code's API as linked views use, and what makes things happen in it. */

type Listener<T> = (event: T) => void;

export class EventEmitter<T> {
  private readonly listeners = new Set<Listener<T>>();
  readonly event = (listener: Listener<T>): { dispose: () => void } => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };

  fire(event: T): void {
    this.listeners.forEach((listener) => {
      listener(event);
    });
  }
}

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

export class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(startLine: number, startCharacter: number, endLine: number, endCharacter: number) {
    this.start = new Position(startLine, startCharacter);
    this.end = new Position(endLine, endCharacter);
  }
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export const OverviewRulerLane = { Left: 1, Full: 7 };
export const TextEditorRevealType = { InCenterIfOutsideViewport: 2, AtTop: 3 };
export const ViewColumn = { Beside: -2 };

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly authority: string,
    readonly path: string,
    readonly query: string,
  ) {}

  static parse(value: string): Uri {
    const { protocol, host, pathname, search } = new URL(value);
    return new Uri(protocol.slice(0, -1), host, pathname, search.slice(1));
  }

  toString(): string {
    return `${this.scheme}://${this.authority}${this.path}${this.query === "" ? "" : `?${this.query}`}`;
  }
}

export interface Document {
  readonly uri: Uri;
  languageId: string;
}

export interface Change {
  readonly range: Range;
  readonly text: string;
}

/** An editor that remembers which lines are marked. */
export class Editor {
  readonly selection = { active: new Position(0, 0) };
  marked: readonly number[] = [];
  private readonly kinds = new Map<unknown, readonly number[]>();
  readonly document: Document;

  constructor(uri: string, languageId: string) {
    this.document = { uri: Uri.parse(uri), languageId };
  }

  setDecorations(kind: unknown, ranges: readonly Range[]): void {
    this.marked = ranges.map((range) => range.start.line);
    this.kinds.set(kind, this.marked);
  }

  /** The lines of all kinds, in the order in which these were drawn first. */
  get drawn(): readonly number[] {
    return [...this.kinds.values()].flat();
  }

  revealRange(): void {
    // nothing scrolls here
  }
}

const selections = new EventEmitter<{ textEditor: Editor }>();
const scrolls = new EventEmitter<{ textEditor: Editor; visibleRanges: readonly Range[] }>();
const visible = new EventEmitter<readonly Editor[]>();
const activations = new EventEmitter<Editor | undefined>();
const openings = new EventEmitter<Document>();
const changes = new EventEmitter<{ document: Document; contentChanges: readonly Change[] }>();
const closings = new EventEmitter<Document>();

export const window = {
  activeTextEditor: undefined as Editor | undefined,
  visibleTextEditors: [] as readonly Editor[],
  createTextEditorDecorationType: () => ({ dispose: () => undefined }),
  onDidChangeTextEditorSelection: selections.event,
  onDidChangeTextEditorVisibleRanges: scrolls.event,
  onDidChangeVisibleTextEditors: visible.event,
  onDidChangeActiveTextEditor: activations.event,
};

export const workspace = {
  getConfiguration: () => ({ get: (_: string, otherwise: unknown) => otherwise }),
  onDidOpenTextDocument: openings.event,
  onDidChangeTextDocument: changes.event,
  onDidCloseTextDocument: closings.event,
};

/** What a user and the machine do. */
export const happens = {
  show(...editors: readonly Editor[]): void {
    window.visibleTextEditors = editors;
    visible.fire(editors);
  },
  activate(editor: Editor): void {
    window.activeTextEditor = editor;
    activations.fire(editor);
  },
  moveCursor(editor: Editor): void {
    selections.fire({ textEditor: editor });
  },
  recognise(document: Document, languageId: string): void {
    document.languageId = languageId;
    openings.fire(document);
  },
  change(document: Document, contentChanges: readonly Change[] = []): void {
    changes.fire({ document, contentChanges });
  },
};
