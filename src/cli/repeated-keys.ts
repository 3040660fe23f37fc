/** Finds keys that an object of a JSON text has twice: `JSON.parse` silently takes the last of them. */

interface OpenValue {
  /** The keys of an object so far; undefined for an array. */
  readonly keys: Set<string> | undefined
  /** The latest of them. */
  key?: string
}

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\]:]/g

/**
 * Each of them with the keys that lead to it.
 * @param text valid JSON
 */
export function findRepeatedKeys(text: string): readonly (readonly string[])[] {
  const found: string[][] = []
  const open: OpenValue[] = []
  let latest = ''
  for (const [token] of text.matchAll(tokens)) {
    const inside = open.at(-1)
    if (token === '{' || token === '[') open.push({ keys: token === '{' ? new Set() : undefined })
    else if (token === '}' || token === ']') open.pop()
    else if (token !== ':') latest = token
    else if (inside?.keys !== undefined) {
      const key = JSON.parse(latest) as string
      inside.key = key
      if (inside.keys.has(key)) found.push(open.flatMap((value) => value.key ?? []))
      inside.keys.add(key)
    }
  }
  return found
}
