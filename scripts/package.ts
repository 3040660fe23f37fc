// Writes build/package: what is published. It has the bundle of build/dist, the declarations that its entry points reach, and README with
// the pages that it leads to.
// Sources and source maps are not in it.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { builtFile } from './dist-files.js'
import { publishedPage, publishedPages, releasedChanges } from './package-pages.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const out = join(root, 'build/package')
const repository = process.env['HOLDFAST_REPOSITORY']

interface Entry {
  readonly types: string
  readonly default: string
}

const { scripts, devDependencies, exports, ...manifest } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
) as {
  readonly scripts: unknown
  readonly devDependencies: unknown
  readonly exports: Readonly<Record<string, string | Entry>>
}

/** The declaration files that users' compilers read, from the entry points on. */
function declarations(from: readonly string[]): string[] {
  const found = new Set<string>()
  const add = (path: string): void => {
    if (found.has(path)) return
    found.add(path)
    for (const [, specifier = ''] of text(path).matchAll(/(?:from|import) ?\(?["'](\.[^"']+)\.js["']/g))
      add(posix.join(posix.dirname(path), `${specifier}.d.ts`))
  }
  for (const path of from) add(path)
  return [...found]
}

function text(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

function put(path: string, contents: string): void {
  mkdirSync(dirname(join(out, path)), { recursive: true })
  writeFileSync(join(out, path), contents)
}

const entries = Object.values(exports).filter((entry) => typeof entry !== 'string')

rmSync(out, { recursive: true, force: true })
const published = Object.entries(exports).map(([path, entry]) => [
  path,
  typeof entry === 'string' ? entry : { types: entry.types, default: `./build/dist/${builtFile(path)}` },
])
put(
  'package.json',
  `${JSON.stringify({ ...manifest, exports: Object.fromEntries(published) }, undefined, 2)}\n`,
)
for (const path of declarations(entries.map(({ types }) => types.slice(2))))
  put(path, text(path).replace(/\n?\/\/# sourceMappingURL=.*\n?$/, '\n'))
for (const name of readdirSync(join(root, 'build/dist')))
  cpSync(join(root, 'build/dist', name), join(out, 'build/dist', name))
put('LICENSE', text('LICENSE'))
const pages = publishedPages()
const files = new Set([...pages, 'LICENSE'])
for (const page of pages) {
  const whole = page === 'CHANGELOG.md' ? releasedChanges(text(page)) : text(page)
  put(page, publishedPage(page, whole, files, repository))
}
