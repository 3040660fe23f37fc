// The checkout's own files, for the tests about them. Tests run compiled, so the root is not next to this file.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Package } from './layers.js'

/** The checkout's root, with a trailing slash. */
export const root: string = fileURLToPath(new URL('../../../', import.meta.url))

/** package.json, as far as tests read it. */
export interface Manifest {
  readonly engines: { readonly node: string }
  readonly bin: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>
  readonly peerDependencies: Readonly<Record<string, string>>
}

export const manifest: Manifest = JSON.parse(read('package.json'))

/** Entry points: specifier, compiled file, source. */
export const entries: readonly {
  readonly specifier: string
  readonly built: string
  readonly source: string
}[] = Object.entries(manifest.exports).flatMap(([path, target]) => {
  if (typeof target === 'string') return []
  const source = target.default.replace('./build/', '').replace(/\.js$/, '.ts')
  return [{ specifier: `holdfast${path.slice(1)}`, built: target.default.slice(2), source }]
})

export const pkg: Package = {
  entries: new Map(entries.map(({ specifier, source }) => [specifier, source])),
  dependencies: ['cli-table3', 'commander', 'picocolors'],
  peers: Object.keys(manifest.peerDependencies),
}

/** Paths from the root of our files below `folder` whose name ends so; none if there is no such folder. */
export function listFiles(folder: string, ending: string): string[] {
  if (!existsSync(join(root, folder))) return []
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.includes('node_modules'))
    .map((name) => join(folder, name).replaceAll('\\', '/'))
    .sort()
}

/** A file's text, by its path from the root. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}
