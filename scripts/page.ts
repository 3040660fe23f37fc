// Bundles the page of `holdfast ui` for browsers, into build/src/ui/page. Part of `npm run build`.
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('../../', import.meta.url))
const from = join(root, 'src/ui/page')
const to = join(root, 'build/src/ui/page')

mkdirSync(to, { recursive: true })
await build({
  entryPoints: [join(from, 'page.tsx'), join(from, 'page.css')],
  outdir: to,
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  banner: { js: '/*! With Preact, (c) 2015-present Jason Miller, MIT license */' },
  logLevel: 'warning',
})
for (const file of ['index.html', 'icon.svg']) copyFileSync(join(from, file), join(to, file))
