// What a TypeScript or JavaScript source refers to. A few lines of scanner instead of a parser: comments and the insides of
// strings are blanked first, so that a doc example or a Lua script is not taken for an import.

/** One reference from a file to another module. */
export interface Import {
  /** As written: `./clock.js`, `holdfast/redis`, `node:fs`. `undefined` where it is computed at run time. */
  readonly specifier: string | undefined
  /** `static` for import and export-from, `dynamic` for `import()`, `url` for `new URL('./x.js', import.meta.url)`. */
  readonly how: 'static' | 'dynamic' | 'url'
  /** Gone after compilation: `import type`, `export type`. */
  readonly typeOnly: boolean
  readonly line: number
}

const names = String.raw`(?:[\w$]+\s*,?\s*)?(?:\{[^{}]*\}|\*(?:\s*as\s+[\w$]+)?)?`
const patterns: readonly { readonly how: Import['how']; readonly pattern: RegExp }[] = [
  {
    how: 'static',
    pattern: new RegExp(String.raw`^(?:import|export)\s+(type\s+)?${names}\s*from\s*(['"])`, 'gm'),
  },
  { how: 'static', pattern: /^import\s*()(['"])/gm },
  { how: 'dynamic', pattern: /(?<![.\w])(?:import|require)\s*\(\s*()(['"`]?)/g },
  { how: 'url', pattern: /\bnew\s+URL\(\s*()(['"`])(?=[^()]*\bimport\.meta\.url)/g },
]

/** All references of a source text, in the order of their lines. */
export function parseImports(text: string): Import[] {
  const code = blank(text)
  const found: Import[] = []
  for (const { how, pattern } of patterns) {
    for (const match of code.matchAll(pattern)) {
      const start = match.index + match[0].length
      const [, type, quote] = match
      const written = quote ? text.slice(start, code.indexOf(quote, start)) : undefined
      const specifier = written?.includes('${') ? undefined : written
      const line = code.slice(0, match.index).split('\n').length
      found.push({ specifier, how, typeOnly: Boolean(type), line })
    }
  }
  return found.sort((one, other) => one.line - other.line)
}

const lineComment = /\/\/[^\n]*/y
const blockComment = /\/\*[\s\S]*?(?:\*\/|$)/y
const quoted = /'(?:[^'\\\n]|\\[\s\S])*|"(?:[^"\\\n]|\\[\s\S])*/y
const templatePart = /[`}](?:[^\\`$]|\\[\s\S]|\$(?!\{))*/y
const regExp = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/y
/** A slash after one of these begins a regular expression; after anything else it divides. */
const beforeRegExp = /(?:^|[([{,;:=!&|?+\-*%<>~^]|\b(?:return|case|typeof|in|of|void|throw|await|yield))$/

/** The same text, as long and with the same lines, without comments and without what is inside strings. */
export function blank(text: string): string {
  let out = ''
  const copy = (length: number): void => {
    out += text.slice(out.length, out.length + length)
  }
  /** Blanks what the pattern matches here, but for its first `keep` characters. */
  const hide = (pattern: RegExp, keep: number): boolean => {
    pattern.lastIndex = out.length
    const [match] = pattern.exec(text) ?? []
    if (match === undefined) return false
    out += match.slice(0, keep) + match.slice(keep).replace(/[^\n]/g, ' ')
    return true
  }
  /** For each `${` that is open: how many braces are open in it. */
  const holes: number[] = []
  const template = (): void => {
    hide(templatePart, 1)
    const hole = text.startsWith('${', out.length)
    if (hole) holes.push(0)
    copy(hole ? 2 : 1)
  }
  while (out.length < text.length) {
    const char = text[out.length]
    const open = holes.at(-1)
    if (char === '`') template()
    else if (char === '}' && open === 0) {
      holes.pop()
      template()
    } else if (char === '{' || char === '}') {
      if (open !== undefined) holes.push((holes.pop() ?? 0) + (char === '{' ? 1 : -1))
      copy(1)
    } else if (char === "'" || char === '"') {
      hide(quoted, 1)
      copy(1)
    } else if (char === '/' && !hide(lineComment, 0) && !hide(blockComment, 0)) {
      const before = out.slice(-200).trimEnd().slice(-10)
      if (beforeRegExp.test(before)) hide(regExp, 1)
      copy(1)
    } else if (char !== '/') copy(1)
  }
  return out
}
