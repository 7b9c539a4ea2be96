/** Which line of a scrolled editor the others are aligned with. Lines count from zero. */

export interface Anchor {
  readonly line: number;
  /** Lines between the top of the view and `line`. */
  readonly offset: number;
}

/** The cursor's line where it can be seen, so that scrolling keeps side by side what belongs together; else the top line. */
export function anchorOf(cursor: number, top: number, bottom: number): Anchor {
  return cursor >= top && cursor <= bottom ? { line: cursor, offset: cursor - top } : { line: top, offset: 0 };
}

/** The top line of a view in which `line` is at the same height. */
export function alignedTop(line: number, { offset }: Anchor): number {
  return Math.max(0, line - offset);
}
