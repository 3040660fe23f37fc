// Pages whose claims name their tests: `[name of the test](../test/file.test.ts)`. Here the names are found and looked up.
import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { read, root } from './checkout.js'

export interface Row {
  readonly line: number
  /** The first cell. */
  readonly what: string
  /** The last one. */
  readonly shown: string
}

/** The rows of a page's tables, without their heads. @param heads first cells that make a row a head */
export function parseRows(page: string, heads: readonly string[]): Row[] {
  return page.split('\n').flatMap((text, at) => {
    if (!text.startsWith('| ') || ['|', ...heads].some((head) => text.startsWith(`| ${head}`))) return []
    const cells = text.slice(2, -2).split(' | ')
    return [{ line: at + 1, what: cells[0] ?? '', shown: cells.at(-1) ?? '' }]
  })
}

/** @param path of the page, which links begin at */
export function listTests(path: string, shown: string): { name: string; file: string }[] {
  const links = shown.matchAll(/\[((?:[^\]`]|`[^`]*`)+)\]\(([^)]+)\)/g)
  return [...links].map(([, name = '', target = '']) => ({
    name,
    file: posix.join(posix.dirname(path), target),
  }))
}

/** What is named and not there. */
export function missing(
  path: string,
  all: readonly Row[],
  get: (file: string) => string | undefined,
): string[] {
  return all.flatMap(({ line, shown }) =>
    listTests(path, shown).flatMap(({ name, file }) => {
      const source = get(file)
      if (source === undefined) return [`${line}: there is no ${file}`]
      return callPattern(name).test(source) ? [] : [`${line}: ${file} has no test '${name}'`]
    }),
  )
}

/** A call of `test` or `it` with that name; `…` stands for what a template fills in. */
function callPattern(name: string): RegExp {
  const literal = name.split('…').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  return new RegExp(`\\b(?:test|it)\\(\\s*(['"\`])${literal.join('\\$\\{[^}]*\\}')}\\1`)
}

export function maybeRead(file: string): string | undefined {
  return existsSync(join(root, file)) ? read(file) : undefined
}
