// The built page: small, and made only of its own sources and Preact.
import '../support/background.js'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { listFiles, read, root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

test('the page is at most 150 KB, gzipped', () => {
  const files = ['index.html', 'page.js', 'page.css', 'icon.svg']
  const sizes = files.map((file) => gzipSync(readFileSync(join(root, 'build/src/ui/page', file))).length)
  const sum = sizes.reduce((a, b) => a + b, 0)
  assert.ok(sum > 5_000 && sum <= 150 * 1024, `${sum} bytes`)
})

test('the page is bundled from src/ui and Preact alone, and makes no markup of texts', () => {
  const found: string[] = []
  for (const path of listFiles('src/ui/page', '.tsx')) {
    const text = read(path)
    for (const [, specifier = ''] of text.matchAll(/from '([^']+)'/g))
      if (!/^(?:\.{1,2}\/[\w-]+\.js|preact(?:\/hooks)?)$/.test(specifier))
        found.push(`${path} imports ${specifier}`)
    for (const [word] of text.matchAll(
      /innerHTML|dangerouslySetInnerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b/g,
    ))
      found.push(`${path} uses ${word}`)
  }
  assert.deepEqual(found, [])
})

after(leakCheck)
