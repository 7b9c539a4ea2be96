/** What a command is about, from the places that it is called from. */

export interface Argument {
  readonly uri?: string;
  readonly unit?: string;
  readonly [key: string]: unknown;
}

/** Something of the tree of kernels, or of the tests. */
export interface About {
  readonly about: Argument;
}

/** Lenses and other programs give the argument itself, the tree its element, menus of an editor a URI, the palette nothing. */
export function argumentOf(given: unknown, active: Argument): Argument {
  if (typeof given !== "object" || given === null) {
    return active;
  }
  if ("about" in given) {
    return (given as About).about;
  }
  return isArgument(given) ? given : active;
}

function isArgument(given: object): given is Argument {
  return Object.getPrototypeOf(given) === Object.prototype;
}
