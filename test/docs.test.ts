// Code in the docs compiles, links lead somewhere, and the list of decisions is complete.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { listFiles, read, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { brokenLinks, parseAnchors, parseFences } from './support/markdown.js'

const pages = [...readdirSync(root).filter((name) => name.endsWith('.md')), ...listFiles('docs', '.md')]

test('every TypeScript fence of README and docs compiles', () => {
  const fences = new Map(pages.flatMap((page) => sourcesOf(page, read(page))))
  assert.ok(fences.size > 0, 'there is not one')
  assert.equal(compile(fences), '')
})

test('a fence that does not compile is reported by its page and line', () => {
  const page = "# Page\n\n```ts\nimport { createLocks } from 'holdfast'\ncreateLocks(7)\n```\n"
  const errors = compile(new Map(sourcesOf('docs/page.md', page)))
  assert.match(errors, /^docs\/page\.md:5:13: .*Argument of type 'number'/)
})

test('a fence may use the names of the prelude, or its own of the same name', () => {
  const page = '```ts\nlock.name.at(0)\n```\n\n```ts\nconst lock = 7\nlock.toFixed()\n```\n'
  assert.equal(compile(new Map(sourcesOf('page.md', page))), '')
})

test('only a fence that says why is left out', () => {
  const fence = (line: string): number => sourcesOf('page.md', `\`\`\`ts\n${line}\n\`\`\`\n`).length
  assert.equal(fence('// not compiled: the old API, to show what changed'), 0)
  assert.equal(fence('// not compiled:'), 1)
  assert.equal(fence('// not compiled'), 1)
})

test('every relative link of README and docs leads somewhere', () => {
  assert.deepEqual(
    pages.flatMap((page) => brokenLinks(page, read(page), maybeRead)),
    [],
  )
})

test('the link check finds a missing file and a missing heading, and leaves code and other sites alone', () => {
  const there: Record<string, string> = {
    'docs/a.md': '# One `thing`\n## Two, (three)\n## Two, (three)',
    'docs/x y.ts': '',
  }
  const check = (line: string): string[] =>
    brokenLinks('docs/page.md', `# Top\n${line}`, (path) => there[path])
  assert.deepEqual(
    check('[a](a.md) [b](a.md#one-thing) [c](a.md#two-three-1) [d](#top) [e](x%20y.ts) [f](https://e.org/x)'),
    [],
  )
  assert.deepEqual(check('`[a](b.md)` and\n```\n[a](b.md)\n```'), [])
  assert.deepEqual(check('[a](b.md)'), ['docs/page.md:2: there is no docs/b.md'])
  assert.deepEqual(check('[a](../b.md "title")'), ['docs/page.md:2: there is no b.md'])
  assert.deepEqual(check('[a]: b.md'), ['docs/page.md:2: there is no docs/b.md'])
  assert.deepEqual(check('[a](a.md#four)'), ['docs/page.md:2: docs/a.md has no heading #four'])
  assert.deepEqual(check('[a](#four)'), ['docs/page.md:2: docs/page.md has no heading #four'])
})

test('headings get the anchors that GitHub gives them', () => {
  assert.deepEqual(
    [...parseAnchors('# `run NAME -- cmd…`\n## 3. What `it` [says](x.md) & does\n```sh\n# no\n```')],
    ['run-name----cmd', '3-what-it-says--does'],
  )
})

test('the list of decisions names each one by its title, in both languages', () => {
  const lacking = ['docs/adr', 'docs/zh/adr'].flatMap((folder) => {
    const list = read(`${folder}/README.md`)
    const decisions = listFiles(folder, '.md').filter((path) => !path.endsWith('README.md'))
    return decisions.filter((path) => {
      const [, number, title] = /^# (\d{4}) (.+)/.exec(read(path)) ?? []
      const name = path.slice(folder.length + 1)
      return (
        !number || !name.startsWith(`${number}-`) || !list.includes(`| [${number}](${name}) | ${title} |`)
      )
    })
  })
  assert.deepEqual(lacking, [])
})

function maybeRead(path: string): string | undefined {
  const full = join(root, path)
  if (!existsSync(full)) return undefined
  return path.endsWith('.md') ? read(path) : ''
}

/** File name and text to compile for each fence; the text begins on the line it has in its page. */
function sourcesOf(page: string, text: string): [string, string][] {
  return parseFences(text)
    .filter(
      ({ language, code }) => /^(ts|typescript)$/.test(language) && !/^\s*\/\/ not compiled: \S/.test(code),
    )
    .map(({ code, line }) => {
      const name = `${page.replaceAll('/', '--')}-${line}.ts`
      return [name, `${'\n'.repeat(line - 1)}${code}\nexport {}\n`]
    })
}

/** What the compiler says about these files, one complaint a line, by page and line. */
function compile(sources: ReadonlyMap<string, string>): string {
  mkdirSync(join(root, 'build'), { recursive: true })
  const folder = mkdtempSync(join(root, 'build/fences-'))
  try {
    for (const [name, text] of sources) writeFileSync(join(folder, name), text)
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    const { stdout, stderr } = spawnSync(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], {
      encoding: 'utf8',
    })
    return said(stdout) || stderr
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const config = {
  extends: '../../tsconfig.json',
  compilerOptions: {
    // Elsewhere than build/, so that `holdfast` means the declarations that are published, not the sources.
    outDir: 'out',
    rootDir: '../..',
    noEmit: true,
    incremental: false,
    tsBuildInfoFile: null,
    declaration: false,
    declarationMap: false,
    isolatedDeclarations: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
  },
  include: ['*.ts', '../../docs/prelude.d.ts'],
}

function said(output: string): string {
  return output
    .trim()
    .replace(/^\S*?([^/\s]+)-\d+\.ts\((\d+),(\d+)\)/gm, (_, name: string, line: string, column: string) => {
      return `${name.replaceAll('--', '/')}:${line}:${column}`
    })
}

after(leakCheck)
