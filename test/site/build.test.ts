// Second tier because it builds the whole site, which takes seconds of both processors.
// The site builds, without a link that leads nowhere.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { listFiles, root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

const out = mkdtempSync(join(tmpdir(), 'holdfast-site-'))

before(async () => {
  const vitepress = join(root, 'node_modules/vitepress/bin/vitepress.js')
  const child = spawn(process.execPath, [vitepress, 'build', 'docs', '--outDir', out], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
  const code = await new Promise((resolve) => child.once('close', resolve))
  assert.equal(code, 0, said) // VitePress itself fails on a dead link between pages.
})

test('every page is there in HTML', () => {
  const lacks = listFiles('docs', '.md')
    .map((path) =>
      path
        .slice('docs/'.length)
        .replace(/README\.md$/, 'index.md')
        .replace(/\.md$/, '.html'),
    )
    .filter((path) => !existsSync(join(out, path)))
  assert.deepEqual(lacks, [])
})

test('every link of every built page leads to a file and a heading of the site, or to another site', () => {
  const pages = new Map(
    readdirSync(out, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.html'))
      .map((name) => [name, readFileSync(join(out, name), 'utf8')]),
  )
  const broken: string[] = []
  for (const [name, html] of pages) {
    const [, content = html] = html.split('<main')
    for (const [, href = ''] of content.matchAll(/<a [^>]*href="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(href)) continue
      const [path = '', anchor] = decodeURI(href).split('#')
      const file = path === '' ? name : fileOf(path)
      if (!existsSync(join(out, file))) broken.push(`${name}: ${href}`)
      else if (anchor && file.endsWith('.html') && !pages.get(file)?.includes(`id="${anchor}"`))
        broken.push(`${name}: ${href} has no such heading`)
    }
  }
  assert.deepEqual(broken, [])
})

/** The file that a path of the site is served from. */
function fileOf(path: string): string {
  const below = path.slice(1)
  if (below === '' || below.endsWith('/')) return `${below}index.html`
  return /\.\w+$/.test(below) ? below : `${below}.html`
}

after(() => rmSync(out, { recursive: true, force: true }))
after(leakCheck)
