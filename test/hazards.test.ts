// The page about hazards names every hazard, race and defect it should, and every test it names exists.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { after, test } from 'node:test'
import { read, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const path = 'docs/hazards.md'

interface Row {
  readonly line: number
  /** The first cell. */
  readonly what: string
  /** The last one. */
  readonly shown: string
}

const rows = rowsOf(read(path))

test('every hazard of one server, of several, of ZooKeeper, etcd and Consul, of databases and of what the lock was for has a row', () => {
  const [databases, purposes] = [range('H', 79).slice(60), range('H', 97).slice(92)]
  assert.deepEqual(numbered('H'), [...range('H', 60), ...databases, ...purposes])
})

test('every defect seen in other libraries has a row', () => {
  assert.deepEqual(numbered('D'), range('D', 19))
})

test('every race of the hand-off has a row', () => {
  const races = rows.filter(({ what }) => !/^[HD]\d+$/.test(what))
  assert.equal(races.length, 22)
})

test('every row has a test, or says why not', () => {
  const lacking = rows.filter(({ shown }) => testsIn(shown).length === 0 && !/^no test: .{20,}/.test(shown))
  assert.deepEqual(lacking, [])
})

test('every test that is named exists in the file it is linked to', () => {
  assert.deepEqual(missing(rows, maybeRead), [])
})

test('the check finds a test that was renamed, a file that was moved, and a name in which something varies', () => {
  const files: Record<string, string> = {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source of one
    'test/a.test.ts': "test('one thing', () => 0)\nit(`two ${n} things`, () => 0)\n// 'three things'",
  }
  const check = (shown: string) => missing(rowsOf(`| H1 | ${shown} |`), (file) => files[file])
  assert.deepEqual(check('[one thing](../test/a.test.ts) · [two … things](../test/a.test.ts)'), [])
  assert.deepEqual(check('[one other](../test/a.test.ts)'), ["1: test/a.test.ts has no test 'one other'"])
  assert.deepEqual(check('[three things](../test/a.test.ts)'), [
    "1: test/a.test.ts has no test 'three things'",
  ])
  assert.deepEqual(check('[one thing](../test/b.test.ts)'), ['1: there is no test/b.test.ts'])
})

function rowsOf(page: string): Row[] {
  return page.split('\n').flatMap((text, at) => {
    if (!text.startsWith('| ') || text.startsWith('| |') || text.startsWith('| race |')) return []
    const cells = text.slice(2, -2).split(' | ')
    return [{ line: at + 1, what: cells[0] ?? '', shown: cells.at(-1) ?? '' }]
  })
}

function numbered(letter: string): string[] {
  return rows.map(({ what }) => what).filter((what) => new RegExp(`^${letter}\\d+$`).test(what))
}

function range(letter: string, last: number): string[] {
  return Array.from({ length: last }, (_, i) => `${letter}${i + 1}`)
}

function testsIn(shown: string): { name: string; file: string }[] {
  const links = shown.matchAll(/\[((?:[^\]`]|`[^`]*`)+)\]\(([^)]+)\)/g)
  return [...links].map(([, name = '', target = '']) => ({
    name,
    file: posix.join(posix.dirname(path), target),
  }))
}

function missing(all: readonly Row[], get: (file: string) => string | undefined): string[] {
  return all.flatMap(({ line, shown }) =>
    testsIn(shown).flatMap(({ name, file }) => {
      const source = get(file)
      if (source === undefined) return [`${line}: there is no ${file}`]
      return callOf(name).test(source) ? [] : [`${line}: ${file} has no test '${name}'`]
    }),
  )
}

/** A call of `test` or `it` with that name; `…` stands for what a template fills in. */
function callOf(name: string): RegExp {
  const literal = name.split('…').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  return new RegExp(`\\b(?:test|it)\\(\\s*(['"\`])${literal.join('\\$\\{[^}]*\\}')}\\1`)
}

function maybeRead(file: string): string | undefined {
  return existsSync(join(root, file)) ? read(file) : undefined
}

after(leakCheck)
