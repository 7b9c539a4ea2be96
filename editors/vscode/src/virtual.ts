/** URIs of generated source and ISA, and of code objects: `ckwatch://KIND/KERNEL/INSTANCE@ARCH.EXT?folder=FOLDER`. */

export const SCHEME = "ckwatch";

export type Kind = "source" | "isa";

/** A URI in its decoded parts, as VS Code keeps it. */
export interface Parts {
  readonly scheme: string;
  readonly authority: string;
  readonly path: string;
  readonly query: string;
}

export interface View {
  readonly kind: Kind;
  /** `KERNEL/INSTANCE@ARCH` */
  readonly unit: string;
}

/** What a URI is the view of; undefined where it is none. */
export function viewOf({ scheme, authority, path }: Parts): View | undefined {
  if (scheme !== SCHEME || (authority !== "source" && authority !== "isa")) {
    return undefined;
  }
  return { kind: authority, unit: path.replace(/^\//, "").replace(/\.[^./]*$/, "") };
}

/** The document that shows what is in a file with code objects. */
export function ofCode(path: string): Parts {
  const name = path.lastIndexOf("/") + 1;
  return { scheme: SCHEME, authority: "code", path: `/${path.slice(name)}.s`, query: `folder=${path.slice(0, Math.max(1, name - 1))}` };
}

/** The URI as the server writes it: VS Code would also encode the `=` and the `@`. */
export function written({ scheme, authority, path, query }: Parts): string {
  const mark = query.indexOf("=");
  const asked = mark < 0 ? quoted(query) : `${query.slice(0, mark)}=${quoted(query.slice(mark + 1))}`;
  return `${scheme}://${authority}${quoted(path).replaceAll("%40", "@")}${asked === "" ? "" : `?${asked}`}`;
}

/** As Python's `urllib.parse.quote` does it. */
function quoted(text: string): string {
  return encodeURIComponent(text)
    .replaceAll("%2F", "/")
    .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}
